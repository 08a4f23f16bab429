"""Linear probe: the predictions of a linear classifier that is fitted to the features."""

import torch
import torch.nn.functional as F
from torch import Tensor

_PENALTY = 1e-3
_STEPS = 100


def linear_probe(features: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Multinomial logistic regression by L-BFGS: weights (classes, d + 1), the last column the bias.

    Minimises the mean cross-entropy plus 1e-3 / 2 times the squared norm of the weights, without the bias.
    """
    x = torch.cat([features.double(), features.new_ones(len(features), 1).double()], 1)
    w = torch.zeros(classes, x.shape[1], dtype=torch.float64, device=x.device, requires_grad=True)
    optimiser = torch.optim.LBFGS([w], max_iter=_STEPS, tolerance_grad=1e-6, line_search_fn="strong_wolfe")

    def objective() -> Tensor:
        optimiser.zero_grad()
        loss = F.cross_entropy(F.linear(x, w), labels) + _PENALTY / 2 * w[:, :-1].square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimiser.step(objective)
    return w.detach()


def probe_predictions(train: Tensor, labels: Tensor, test: Tensor, classes: int) -> Tensor:
    """The classes that a probe, fitted to training features, predicts for test features. Both are standardised by the
    mean and standard deviation of the training features."""
    mean, std = train.double().mean(0), train.double().std(0).clamp_min(1e-6)
    w = linear_probe((train.double() - mean) / std, labels, classes)
    return F.linear((test.double() - mean) / std, w[:, :-1], w[:, -1]).argmax(1)
