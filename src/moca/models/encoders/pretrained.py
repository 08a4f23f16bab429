"""An encoder with trained weights: of a finished run, of a model, or from a file."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from moca.errors import MocaError
from moca.models.encoders.base import Encoder


def _absolute(path: str) -> str:
    """The path made absolute, so that a run can be resumed from any working directory."""
    return str(Path(path).expanduser().resolve()) if path else path


class Pretrained(Encoder):
    """An encoder with trained weights. Models use only the encoder inside, `within`, and store its weights with their
    own, so that a model, or a run that has ended, no longer needs the file."""

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
        super().__init__(features=0)  # those of the encoder inside, which alone is used
        self.within, self.architecture = make_encoder(trained.encoder, shape), trained.encoder
        self.normalisation = trained.normalisation
        fill(self.within, trained, shape)
