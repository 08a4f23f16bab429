"""DOA: dropout-based augmentation, from the replayed samples (old) or from new ones."""

from torch import Tensor

from moca.batch import Batch
from moca.models.auxiliary import auxiliary_encode
from moca.perturb.base import Perturbation
from moca.perturb.rows import paired
from moca.settings import perturb


class DOAOld(Perturbation[perturb.DOAOld]):
    """n = Dropout(h(x_old)): the replayed sample's own feature with a random part of it missing."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The encoder, for dropout inside it."""
        return ("model",) if self.settings.site == "stages" else ()

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """Dropout on the replayed samples."""
        return self.dropped(replay)

    def dropped(self, batch: Batch) -> Tensor:
        """The batch's features under dropout, at the feature or after every stage of the encoder."""
        if self.settings.site == "feature":
            return self.dropout(batch.features)
        return auxiliary_encode(self.model, batch.x, after_stage=self.dropout)

    def dropout(self, h: Tensor) -> Tensor:
        """Zero each entry with the given probability and scale the others to keep the mean, which counts in a stage."""
        rate = self.settings.rate
        return h * (self.random.uniform(*h.shape) >= rate) / (1 - rate)


class DOANew(DOAOld):
    """n = Dropout(h(x_new)): towards a new sample's feature, a random part of it missing."""

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """Dropout on the new samples, paired by row."""
        return paired(self.dropped(new), len(replay.features))
