"""The HTTP application: its routes, and how their responses are built."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Annotated, TypeVar

import torch
from fastapi import FastAPI, File, Form, HTTPException, Query, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from PIL import Image

from moca import __version__
from moca.classifier.facts import facts_of
from moca.classifier.images import class_name, meant
from moca.classifier.remarks import alike_told
from moca.classifier.summary import (
    basis_told,
    copies_told,
    cost_told,
    emptied_told,
    otherwise_told,
    passed_over_told,
)
from moca.cores import cores
from moca.data.arrays import Label
from moca.data.source import Pixels
from moca.errors import MocaError
from moca.serve import answers, page
from moca.serve.current_version import InUse, Version
from moca.serve.guard import Guard
from moca.serve.limits import Limits
from moca.serve.teaching import Busy, Status, Teaching
from moca.serve.uploads import Upload, pixels_of, read, readable

Answer = TypeVar("Answer")
_ABOUT = "A model that keeps learning: classify images, find similar images in its memory, and teach it new classes."
_POLL = 1.0
"""Seconds between two checks of which version is in use."""
_MAX_NAME = 100
"""Maximum length of a class name."""
_NAME = f"a class needs a name of 1 to {_MAX_NAME} characters in one line"
_BUSY = "a lesson is already running; wait until it has ended"
_BACK = "use the version before it."
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
        return _about(in_use, limits, teaching is not None)

    @app.get("/api/classes")
    def classes() -> list[answers.KnownClass]:
        """The classes that the model knows, in the order in which it learnt them."""
        known, examples = _about(in_use, limits, teaching is not None).classes, in_use.version.examples
        return [one.model_copy(update={"png": _data_url(examples[one.label])}) if one.label in examples else one
                for one in known]  # fmt: skip

    @app.post("/api/predict")
    async def predict(images: Images, top: Annotated[int, Query(ge=1, le=1000)] = 5) -> answers.Predictions:
        """Classify images; the most probable classes come first."""
        version, uploads = in_use.version, await read(images, limits)
        return await work(lambda: _predictions(version, uploads, limits, top))

    @app.post("/api/nearest")
    async def nearest(images: Images, count: Annotated[int, Query(ge=1, le=100)] = 6) -> answers.Nearest:
        """The images in memory that are nearest to each image, by the angle between their features."""
        version, uploads = in_use.version, await read(images, limits)
        return await work(lambda: _nearest(version, uploads, limits, count))

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
            return _lesson(await asyncio.to_thread(teaching.begin, label, images_read), in_use.version.names)
        except Busy:
            raise HTTPException(409, _BUSY) from None

    @app.get("/api/teach")
    async def lesson() -> answers.LessonStatus:
        """Progress of the current lesson, or the result of the last one."""
        return _lesson(require_teaching().status, in_use.version.names)

    @app.delete("/api/teach")
    async def stop() -> answers.LessonStatus:
        """Stop the lesson; the model stays unchanged."""
        await asyncio.to_thread(require_teaching().stop)
        return _lesson(require_teaching().status, in_use.version.names)

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


def _predictions(version: Version, uploads: Sequence[Upload], limits: Limits, top: int) -> answers.Predictions:
    shares = version.shares(pixels_of(uploads, version.classifier.shape_, limits))
    best = (-shares).argsort(1, kind="stable")[:, :top]
    predictions = [
        answers.Prediction(
            image=upload.name,
            classes=[answers.Share(label=version.names[c], share=round(float(share[c]), 4)) for c in chosen],
        )
        for upload, share, chosen in zip(uploads, shares, best, strict=True)
    ]
    return answers.Predictions(version=version.number, predictions=predictions)


def _nearest(version: Version, uploads: Sequence[Upload], limits: Limits, count: int) -> answers.Nearest:
    found = version.nearest(pixels_of(uploads, version.classifier.shape_, limits), count)
    nearest = [
        answers.NearestOf(
            image=upload.name,
            remembered=[answers.Near(label=n.label, angle=round(n.angle, 1), png=_data_url(n.image)) for n in near],
        )
        for upload, near in zip(uploads, found, strict=True)
    ]
    return answers.Nearest(version=version.number, nearest=nearest)


def _data_url(image: Pixels) -> str:
    file = io.BytesIO()
    Image.fromarray(image if image.shape[2] == 3 else image[..., 0]).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _about(in_use: InUse, limits: Limits, teaching: bool) -> answers.About:
    facts = facts_of(in_use.folder, in_use.version.classifier)
    channels, height, width = facts.shape
    return answers.About(
        name=in_use.name,
        version=facts.version,
        learner=facts.learner,
        perturb=facts.perturb,
        encoder=facts.encoder,
        image_size=(width, height, channels),
        classes=[
            answers.KnownClass(
                label=one.name, since=one.version, remembered=one.in_memory, correct=one.correct, held=one.held
            )
            for one in facts.classes
        ],
        history=[
            answers.PastVersion(
                version=past.version,
                in_use=past.version == facts.version,  # it answers, even if another is in use on disk
                when=past.when,
                classes=past.classes,
                what=past.what,
                new_classes=past.lesson.new_classes,
                images=past.lesson.images or None,
                old_before=past.lesson.old_before,
                old_after=past.lesson.old_after,
                new_after=past.lesson.new_after,
                forgot=past.lesson.forgot,
            )
            for past in facts.versions
        ],
        damaged=facts.damaged,
        trouble=in_use.trouble,
        limits=answers.Allowed(
            bytes=limits.bytes,
            images=limits.images,
            pixels=limits.pixels,
            requests_a_second=limits.rate,
            teaching=teaching,
        ),
    )


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


def _lesson(status: Status, known: Sequence[Label]) -> answers.LessonStatus:
    lesson = status.lesson
    warned: tuple[str, ...] = ()
    if lesson is not None:
        alike = alike_told(lesson.new_classes, [name for name in known if name not in lesson.new_classes])
        emptied = emptied_told(lesson, lambda name: "forget it.")
        passed_over = passed_over_told(lesson, lambda number: f"use version {number}.")
        cost = cost_told(lesson, _BACK)
        warned = (alike, otherwise_told(lesson), copies_told(lesson), cost, emptied, passed_over)
    keys = ("version", "held", "known", "old_before", "old_after", "old_apart", "new_after")
    return answers.LessonStatus(
        state=status.state,
        label=status.label,
        images=status.images,
        left_out=list(status.left_out),
        done=status.done,
        steps=status.steps,
        told=status.told,
        otherwise={} if lesson is None else lesson.otherwise,
        warnings=[*filter(None, warned)],
        basis="" if lesson is None else basis_told(lesson),
        **{key: None if lesson is None else getattr(lesson, key) for key in keys},
    )


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
