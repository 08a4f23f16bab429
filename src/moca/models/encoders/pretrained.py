"""An encoder with trained weights: of a finished run, of a model, or from a file."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from torch import Tensor

from moca.errors import MocaError
from moca.models.encoders.base import AfterStage, Encoder, unchanged


def _absolute(path: str) -> str:
    """The path made absolute, so that a run can be resumed from any working directory."""
    return str(Path(path).expanduser().resolve()) if path else path


class Pretrained(Encoder):
    """An encoder with trained weights. A model uses only the encoder inside, `within`, so a run no longer needs the
    weights once it has started."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        weights: Annotated[
            str,
            AfterValidator(_absolute),
            Field(description="a finished run, a model, or a file (safetensors or torch) of an encoder's weights"),
        ] = "",
        base: Annotated[
            str | None,
            Field(description="which encoder a file is of; its options are separated by /: resnet18:width=20/pool=4"),
        ] = None,
    ) -> None:
        from moca.models.build import make_encoder
        from moca.models.weights import fill, read_weights

        if not weights:
            raise MocaError("pretrained needs weights: pretrained:weights=runs/NAME, a model, or a file of weights")
        trained = read_weights(Path(weights), base)
        within = make_encoder(trained.encoder, shape)
        fill(within, trained, shape)
        super().__init__(within.features)
        self.within, self.architecture, self.normalisation = within, trained.encoder, trained.normalisation
        self.small = within.small

    def forward(self, x: Tensor, after_stage: AfterStage = unchanged) -> Tensor:
        """Features of the images x."""
        features: Tensor = self.within(x, after_stage)
        return features
