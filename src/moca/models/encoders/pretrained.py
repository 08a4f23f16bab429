"""The encoder of a finished run, of a model or of a file of weights, as it was trained."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from torch import Tensor

from moca.errors import MocaError
from moca.models.encoders.base import AfterStage, Encoder, unchanged


def _absolute(path: str) -> str:
    """Found from wherever a run is resumed."""
    return str(Path(path).expanduser().resolve()) if path else path


class Pretrained(Encoder):
    """An encoder with the weights that it once learnt. A model is built of the encoder within, so that it no longer
    needs the file once it has begun."""

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
        kept = read_weights(Path(weights), base)
        within = make_encoder(kept.encoder, shape)
        fill(within, kept, shape)
        super().__init__(within.features)
        self.within, self.architecture, self.normalisation = within, kept.encoder, kept.normalisation
        self.small = within.small

    def forward(self, x: Tensor, after_stage: AfterStage = unchanged) -> Tensor:
        """Features of the images x."""
        features: Tensor = self.within(x, after_stage)
        return features
