"""`moca serve`: a model as a small HTTP service."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Annotated

from cyclopts import Parameter

from moca.cli.model import Device, HeldOut, Model, Tolerate, check_shares
from moca.cli.show import say
from moca.errors import MocaError
from moca.importing import loading


def serve(
    model: Model,
    /,
    *,
    host: Annotated[str, Parameter(help="address to listen on; any but localhost needs an API key")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="port; 0 for any free port")] = 8000,
    api_key: Annotated[
        str | None,
        Parameter(help="key that requests must send; safer in MOCA_API_KEY than typed here", env_var="MOCA_API_KEY"),
    ] = None,
    version: Annotated[
        int | None,
        Parameter(
            help="serve this version, whichever is in use, and only predict [default: the one in use]",
            show_default=False,
        ),
    ] = None,
    teach: Annotated[bool, Parameter(help="allow teaching the model through the service")] = True,
    held_out: HeldOut = 0.1,
    tolerate: Tolerate = 0.2,
    rate: Annotated[float, Parameter(help="most requests per second from one client; 0 for no limit")] = 20.0,
    max_mb: Annotated[float, Parameter(help="most megabytes per request")] = 64.0,
    max_images: Annotated[int, Parameter(help="most images per request")] = 100,
    max_megapixels: Annotated[float, Parameter(help="most megapixels per image")] = 32.0,
    max_waiting_mb: Annotated[
        float | None,
        Parameter(help="most megabytes of all pending requests together [default: 4 requests]", show_default=False),
    ] = None,
    device: Device = "auto",
) -> int:
    """Serve a model over HTTP: a web page for predicting and teaching, and a JSON API.

    The page shows the predicted class of an image and the nearest images in memory, and teaches a class from a few
    images. Lessons run in the background; each becomes a new version of the model, which is used unless it forgets too
    much. Versions from moca learn and moca model rollback are picked up too. The API is described at /openapi.json.
    """
    max_waiting_mb = 4 * max_mb if max_waiting_mb is None else max_waiting_mb
    request, waiting, pixels = (most * (1 << 20) for most in (max_mb, max_waiting_mb, max_megapixels))
    if not (0 <= rate < math.inf and all(0 < most < math.inf for most in (request, waiting, pixels, max_images))):
        raise MocaError("limits are finite numbers above 0; --rate 0 means no limit on requests")
    if waiting < request:
        raise MocaError(f"--max-waiting-mb {max_waiting_mb:g} has no room for one request of --max-mb {max_mb:g}")
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
        limits=Limits(int(request), max_images, int(pixels), rate, int(waiting)),
        rules=LessonRules(held_out, tolerate, device),
        teach=teach,
        version=version,
        say=say,
    )
    return 0
