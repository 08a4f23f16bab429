"""The HTTP application: its routes, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Annotated, TypeVar

import torch
from fastapi import FastAPI, File, Form, HTTPException, Query, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse

from moca import __version__
from moca.classifier.images import class_name, meant
from moca.cores import cores
from moca.data.arrays import Label
from moca.errors import MocaError
from moca.serve import answers, page, responses
from moca.serve.current_version import InUse
from moca.serve.guard import Guard
from moca.serve.limits import Limits
from moca.serve.teaching import Busy, Teaching
from moca.serve.uploads import read, readable

Answer = TypeVar("Answer")
_ABOUT = "A model that keeps learning: classify images, find similar images in its memory, and teach it new classes."
_POLL = 1.0
"""Seconds between two checks of which version is in use."""
_MAX_NAME = 100
"""Maximum length of a class name."""
_NAME = f"a class needs a name of 1 to {_MAX_NAME} characters in one line"
_BUSY = "a lesson is already running; wait until it has ended"
_MISSING = {"class": _NAME, "images": "there are no images; send at least one, in the field images"}
Images = Annotated[list[UploadFile], File(description="image files: PNG, JPEG, WebP, BMP, GIF, PPM")]
Name = Annotated[str, Form(alias="class", description="name of the class that all images show, known or new")]


def create_app(in_use: InUse, teaching: Teaching | None, limits: Limits, key: str | None = None) -> FastAPI:
    """The application that serves a model; without `teaching` it only predicts."""
    pool = ThreadPoolExecutor(cores(), "predict", initializer=torch.set_num_threads, initargs=(1,))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watch = asyncio.create_task(_watch(in_use))
        yield
        watch.cancel()
        if teaching is not None:
            await asyncio.to_thread(teaching.stop)
        pool.shutdown(wait=False, cancel_futures=True)

    async def work(job: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(pool, job)

    app = FastAPI(
        title="moca", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.add_middleware(Guard, limits=limits, key=key)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(MocaError, _unavailable)
    app.add_exception_handler(Exception, _defect)

    @app.get("/", include_in_schema=False)
    async def look() -> HTMLResponse:
        return HTMLResponse(page.HTML, headers={"Content-Security-Policy": page.POLICY})

    @app.get("/api/health")
    async def health() -> answers.Health:
        """Whether the service is up, and with which version; needs no key."""
        return answers.Health(version=in_use.version.number, trouble=in_use.trouble is not None)

    @app.get("/api/model")
    def model() -> answers.About:
        """The model: its settings, classes, versions with their accuracies, and the limits of a request."""
        return responses.about(in_use, limits, teaching is not None)

    @app.get("/api/classes")
    def classes() -> list[answers.KnownClass]:
        """The classes that the model knows, in the order in which it learnt them."""
        return responses.classes(in_use)

    @app.post("/api/predict")
    async def predict(images: Images, top: Annotated[int, Query(ge=1, le=1000)] = 5) -> answers.Predictions:
        """Classify images; the most probable classes come first."""
        version, uploads = in_use.version, await read(images, limits)
        return await work(lambda: responses.predictions(version, uploads, limits, top))

    @app.post("/api/nearest")
    async def nearest(images: Images, count: Annotated[int, Query(ge=1, le=100)] = 6) -> answers.Nearest:
        """The images in memory that are nearest to each image, by the angle between their features."""
        version, uploads = in_use.version, await read(images, limits)
        return await work(lambda: responses.nearest(version, uploads, limits, count))

    def require_teaching() -> Teaching:
        if teaching is None:
            raise HTTPException(403, "this service does not teach: it was started with --no-teach or --version")
        return teaching

    @app.post("/api/teach", status_code=202)
    async def teach(images: Images, name: Name) -> answers.LessonStatus:
        """Start a lesson of one class in the background; refused while another one runs. Images that cannot be read are
        skipped and named."""
        teaching, label = require_teaching(), _label(name, in_use.version.names)
        try:
            teaching.check_free()  # before images are read for nothing
            uploads, shape = await read(images, limits), in_use.version.classifier.shape_
            images_read = await work(lambda: readable(uploads, shape, limits))
            begun = await asyncio.to_thread(teaching.begin, label, images_read)
            return responses.lesson_status(begun, in_use.version.names)
        except Busy:
            raise HTTPException(409, _BUSY) from None

    @app.get("/api/teach")
    async def lesson() -> answers.LessonStatus:
        """Progress of the current lesson, or the result of the last one."""
        return responses.lesson_status(require_teaching().status, in_use.version.names)

    @app.delete("/api/teach")
    async def stop() -> answers.LessonStatus:
        """Stop the lesson; the model stays unchanged."""
        await asyncio.to_thread(require_teaching().stop)
        return responses.lesson_status(require_teaching().status, in_use.version.names)

    def change(job: Callable[[], None]) -> answers.About:
        try:
            job()
        except Busy:
            raise HTTPException(409, _BUSY) from None
        except MocaError as error:  # the model does not allow it
            raise HTTPException(409, str(error)) from None
        return model()

    @app.post("/api/use")
    def use(version: Annotated[int, Form(description="number of a version")]) -> answers.About:
        """Put another version into use; no version is lost."""
        teaching = require_teaching()
        return change(lambda: teaching.use(version))

    @app.post("/api/forget")
    def forget(name: Annotated[str, Form(alias="class", description="a class that is known")]) -> answers.About:
        """Forget a class in a new version; earlier versions still have it."""
        teaching, label = require_teaching(), _label(name, in_use.version.names)
        return change(lambda: teaching.forget(label))

    return app


async def _watch(in_use: InUse) -> None:
    while True:
        await asyncio.sleep(_POLL)
        await asyncio.to_thread(in_use.look)


def _label(name: str, known: Sequence[Label]) -> Label:
    """The label of a class, known or new: its name, or a number if the model's classes are numbers."""
    label, name = meant(name, known), class_name(name)
    if not name.strip() or len(name) > _MAX_NAME or not name.isprintable():
        raise HTTPException(422, _NAME)
    if label in known or not all(isinstance(one, int) for one in known):
        return label
    if not (name.isascii() and name.isdigit()):
        raise HTTPException(422, f"the classes of this model are whole numbers, and '{name}' is not one")
    return int(name)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = " ".join(str(part) for part in first["loc"][1:]) or "the request"
    if first["type"] == "missing" and where in _MISSING:
        return JSONResponse({"detail": _MISSING[where]}, 422)
    what = "not a file" if "UploadFile" in first["msg"] else first["msg"]
    return JSONResponse({"detail": f"{where}: {what}"}, 422)


async def _unavailable(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 503)


async def _defect(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "the service failed; the reason is printed where it was started"}, 500)
