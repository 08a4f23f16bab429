"""`moca serve`: a model as a small HTTP service."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

from cyclopts import Parameter

from moca.cli.model import Device, Model, check_shares
from moca.cli.show import say
from moca.errors import MocaError
from moca.importing import loading


def serve(
    model: Model,
    /,
    *,
    host: Annotated[str, Parameter(help="address to listen at; any but this machine's own needs a key")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="port; 0 for any that is free")] = 8000,
    api_key: Annotated[
        str | None,
        Parameter(help="key that requests must bring; better not typed but in MOCA_API_KEY", env_var="MOCA_API_KEY"),
    ] = None,
    teach: Annotated[bool, Parameter(help="whether the model can be taught through the service")] = True,
    held_out: Annotated[float, Parameter(help="share of a lesson's images to judge by")] = 0.1,
    tolerate: Annotated[float, Parameter(help="most accuracy on old classes that a lesson may cost, as a share")] = 0.2,
    rate: Annotated[float, Parameter(help="requests a second of one client; 0 for any number")] = 20.0,
    max_mb: Annotated[float, Parameter(help="megabytes of a request")] = 64.0,
    max_images: Annotated[int, Parameter(help="images of a request")] = 100,
    max_megapixels: Annotated[float, Parameter(help="megapixels of an image")] = 32.0,
    max_waiting_mb: Annotated[
        float | None,
        Parameter(help="megabytes of all requests that wait for an answer [default: 4 requests]", show_default=False),
    ] = None,
    device: Device = "auto",
) -> int:
    """Serve a model: a page to look and teach with, and the same for programs.

    The page shows what an image is and which remembered images are nearest to it, and teaches a class from a few
    images. Lessons are held in the background, are versions of the model, and are put to use unless they do harm.
    A version that moca learn or moca model rollback puts to use is taken up, too. Programs find what can be asked at
    /openapi.json.
    """
    if rate < 0 or min(max_mb, max_images, max_megapixels) <= 0:
        raise MocaError("limits are numbers above 0; --rate 0 is for any number of requests")
    waiting = 4 * max_mb if max_waiting_mb is None else max_waiting_mb
    if waiting < max_mb:
        raise MocaError(f"--max-waiting-mb {waiting:g} has no room for one request of --max-mb {max_mb:g}")
    check_shares(held_out, tolerate)
    with loading():
        if not all(map(find_spec, ("fastapi", "uvicorn", "python_multipart"))):
            raise MocaError("serving needs an extra; install it with: pip install 'moca-cl[serve]'")
        from moca.serve.limits import Limits
        from moca.serve.run import serve
        from moca.serve.teaching import LessonRules

    serve(
        model,
        host=host,
        port=port,
        key=api_key,
        limits=Limits(
            int(max_mb * (1 << 20)), max_images, int(max_megapixels * (1 << 20)), rate, int(waiting * (1 << 20))
        ),
        rules=LessonRules(held_out, tolerate, device),
        teach=teach,
        say=say,
    )
    return 0
