"""What a version, the model or a lesson says, in the types of `answers`."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

from PIL import Image

from moca.classifier.facts import KnownClass, facts_of
from moca.classifier.remarks import alike_told
from moca.classifier.summary import (
    basis_told,
    copies_told,
    cost_told,
    emptied_told,
    otherwise_told,
    passed_over_told,
)
from moca.data.arrays import Label
from moca.data.source import Pixels
from moca.serve import answers
from moca.serve.current_version import InUse, Version
from moca.serve.limits import Limits
from moca.serve.teaching import Status
from moca.serve.uploads import Upload, pixels_of

_BACK = "use the version before it."


def predictions(version: Version, uploads: Sequence[Upload], limits: Limits, top: int) -> answers.Predictions:
    """The most probable classes of each image."""
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


def nearest(version: Version, uploads: Sequence[Upload], limits: Limits, count: int) -> answers.Nearest:
    """The images in memory that are nearest to each image."""
    found = version.nearest(pixels_of(uploads, version.classifier.shape_, limits), count)
    nearest = [
        answers.NearestOf(
            image=upload.name,
            remembered=[answers.Near(label=n.label, angle=round(n.angle, 1), png=_data_url(n.image)) for n in near],
        )
        for upload, near in zip(uploads, found, strict=True)
    ]
    return answers.Nearest(version=version.number, nearest=nearest)


def about(in_use: InUse, limits: Limits, teaching: bool) -> answers.About:
    """The model, its classes and its versions."""
    facts = facts_of(in_use.folder, in_use.version.classifier)
    channels, height, width = facts.shape
    return answers.About(
        name=in_use.name,
        version=facts.version,
        learner=facts.learner,
        perturb=facts.perturb,
        encoder=facts.encoder,
        image_size=(width, height, channels),
        classes=[_class(one) for one in facts.classes],
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


def classes(in_use: InUse) -> list[answers.KnownClass]:
    """The known classes, each with one of its images in memory, if there is any."""
    version = in_use.version
    pictures = {name: _data_url(image) for name, image in version.examples.items()}
    return [_class(one, pictures.get(one.name)) for one in facts_of(in_use.folder, version.classifier).classes]


def _class(one: KnownClass, png: str | None = None) -> answers.KnownClass:
    return answers.KnownClass(
        label=one.name, since=one.version, remembered=one.in_memory, correct=one.correct, held=one.held, png=png
    )


def lesson_status(status: Status, known: Sequence[Label]) -> answers.LessonStatus:
    """Progress of a lesson, or its result, with what to look into."""
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


def _data_url(image: Pixels) -> str:
    file = io.BytesIO()
    Image.fromarray(image if image.shape[2] == 3 else image[..., 0]).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
