import io
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image

from moca.data import add, decode, decoders, load
from moca.data.source import BLOCK_BYTES, Options
from moca.errors import MocaError
from tests.data import made


def saved(image, kind="PNG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def test_modes_become_grey_or_colour():
    grey = Image.fromarray(made.pictures(1, channels=1)[0, :, :, 0])
    colour = Image.fromarray(made.pictures(1)[0])
    np.testing.assert_array_equal(decode.decode(saved(grey))[:, :, 0], np.asarray(grey))
    np.testing.assert_array_equal(decode.decode(saved(colour)), np.asarray(colour))
    assert decode.decode(saved(grey), colour=True).shape == (8, 8, 3)
    for mode in ("1", "LA"):
        assert decode.decode(saved(colour.convert(mode))).shape == (8, 8, 1)
    for mode in ("RGBA", "P"):
        assert decode.decode(saved(colour.convert(mode))).shape == (8, 8, 3)
    assert decode.decode(saved(colour.convert("CMYK"), "JPEG")).shape == (8, 8, 3)


def test_what_is_transparent_is_white():
    """By the formula; in every way in which a file says that a pixel is transparent."""
    grey, alpha = (made.pictures(1, channels=1, seed=seed)[0, :, :, 0].astype(float) for seed in (0, 1))
    seen = np.rint((grey * alpha + 255 * (255 - alpha)) / 255).astype(np.uint8)
    both = np.stack([grey, alpha], 2).astype(np.uint8)
    np.testing.assert_array_equal(decode.decode(saved(Image.fromarray(both)))[:, :, 0], seen)
    np.testing.assert_array_equal(decode.decode(saved(Image.fromarray(both[..., [0, 0, 0, 1]])))[:, :, 1], seen)
    marked = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    for image, kind in ((marked, "PNG"), (marked, "GIF"), (marked.convert("RGB"), "PNG"), (marked.convert("P"), "PNG")):
        black = (0, 0, 0) if image.mode == "RGB" else 0
        told = decode.decode(saved(image, kind, transparency=black), colour=True)
        np.testing.assert_array_equal(told[:, :, 2].flatten(), [255, *range(1, 64)])


def test_sixteen_bit_grey_keeps_its_upper_byte():
    deep = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000
    for kind in ("PNG", "PPM"):
        np.testing.assert_array_equal(decode.decode(saved(Image.fromarray(deep), kind))[:, :, 0], deep >> 8)
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = decode.decode(saved(Image.fromarray(deep[:, :4]), exif=exif.tobytes()))
    np.testing.assert_array_equal(turned[:, :, 0], np.rot90(deep[:, :4] >> 8, -1))


def test_a_cameras_orientation_is_obeyed():
    image = Image.fromarray(made.pictures(1)[0, :, :4])
    exif = Image.Exif()
    exif[0x0112] = 3
    turned = decode.decode(saved(image, exif=exif.tobytes()))
    np.testing.assert_array_equal(turned, np.asarray(image)[::-1, ::-1])


def test_size_covers_the_square_and_cuts_the_middle_out():
    wide = np.zeros((8, 24, 3), np.uint8)
    wide[:, 8:16] = 200
    assert (decode.decode(saved(Image.fromarray(wide)), size=8) == 200).all()


def test_formats_that_need_an_interpreter_are_not_even_opened():
    with pytest.raises(Exception, match=r"cannot identify"):
        decode.decode(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(%pipe%touch x)(w)file\n")


def png_claiming(width, height):
    """A few bytes that say they are a huge picture."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [9_000, 12_000, 60_000])
def test_images_with_too_many_pixels_are_refused_before_decoding(side, tmp_path):
    source = made.folder(tmp_path / "a", made.small_set())
    (source / "train" / "class0" / "bomb.png").write_bytes(png_claiming(side, side))
    with pytest.raises(MocaError, match=r"cannot read .*bomb.png: .*pixels"):
        add("mine", source)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("damage", ["truncated", "text", "empty"])
def test_one_bad_image_is_named_and_can_be_left_out(workers, damage, tmp_path, store_dir):
    source = made.folder(tmp_path / "a", made.small_set(train=5))
    victim = sorted((source / "train" / "class1").iterdir())[2]
    whole = victim.read_bytes()
    victim.write_bytes({"truncated": whole[: len(whole) // 2], "text": b"hello", "empty": b""}[damage])
    with pytest.raises(MocaError, match=rf"cannot read .*{victim.name}: .*leave it out with skip_bad=True"):
        add("mine", source, workers=workers)
    assert not (store_dir / "names").exists()
    added = add("mine", source, skip_bad=True, workers=workers)
    assert added.info.train == (5, 4, 5) and added.info.notes == ("1 unreadable images left out",)
    assert len(added.left_out) == 1 and str(victim) in added.left_out[0]


def test_a_file_that_is_gone_is_named(tmp_path):
    source = made.folder(tmp_path / "a", made.small_set())
    (source / "train" / "class0" / "link.png").symlink_to(tmp_path / "nothing.png")
    with pytest.raises(MocaError, match=r"link.png: a link to a file that does not exist; mend it, or leave it out"):
        add("mine", source)


def test_several_threads_and_one_agree(tmp_path, monkeypatch):
    monkeypatch.setattr(decoders, "CHUNK", 7)
    source = made.folder(tmp_path / "a", made.small_set(train=20))
    assert add("one", source, workers=1).info == add("two", source, workers=3).info


def test_blocks_come_in_order_even_if_the_first_takes_longest(monkeypatch):
    def slow(item, *_):
        time.sleep(0.05 if item == b"0" else 0)
        return np.full((1, 1, 1), int(item), np.uint8)

    monkeypatch.setattr(decode, "decode", slow)
    blocks = list(decoders._decoded([[b"%d" % i] for i in range(30)], None, False, workers=4))
    assert [int(image) for block in blocks for image in block.images.ravel()] == list(range(30))


def test_reading_stays_a_few_chunks_ahead_and_leaves_no_thread(monkeypatch):
    taken = []
    picture = made.png(made.pictures(1)[0])
    before = list(warnings.filters)
    blocks = decoders._decoded((taken.append(i) or [picture] for i in range(100)), None, False, workers=2)
    next(blocks)
    assert len(taken) <= 6
    blocks.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("decode")]
    assert warnings.filters == before


STOPPED = """
import os, sys, time
from moca.__main__ import main
from moca.data import decode
def slow(*_):
    os.write(1, b"decoding\\n")  # in one piece: several threads are at it
    time.sleep(2)
    raise ValueError("slow")
decode.decode = slow
sys.argv = ["moca", "data", "add", "mine", "--from", sys.argv[1], "--skip-bad"]
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_while_decoding_is_one_line_and_leaves_nothing(tmp_path, store_dir):
    source = made.folder(tmp_path / "a", made.small_set(train=100))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(source)], stdout=-1, stderr=-1, text=True, env=environment
    )
    assert child.stdout.readline() == "decoding\n"
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=30)
    assert (told, child.returncode) == ("moca: stopped at once\n", 130)
    assert list((store_dir / "tmp").iterdir()) == [] and not (store_dir / "names").exists()


LARGE = made.pictures(1, side=300)[0]


@pytest.mark.parametrize("workers", [1, 2])
def test_blocks_of_large_images_stay_small_and_none_is_lost(workers):
    small, large = made.png(made.pictures(1)[0]), made.png(LARGE)
    items = [large] * 40 + [b"bad"] + [small] * 3 + [large] * 80 + [b"bad"]
    blocks = list(decoders._decoded([items[:100], items[100:]], None, False, workers))
    assert max(block.images.nbytes for block in blocks) <= BLOCK_BYTES
    read = [row for block in blocks for row in block.rows]
    assert read == sorted(read) and len(read) == len(items) - 2
    assert [row for block in blocks for row, _ in block.bad] == [40, 124]
    assert all((image == LARGE).all() for block in blocks for image in block.images if image.shape == LARGE.shape)


def test_large_images_do_not_pile_up_in_memory(tmp_path):
    picture = saved(Image.new("RGB", (4000, 1000)))
    for i in range(40):
        place = tmp_path / "a" / f"class{i % 2}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{i}.png").write_bytes(picture)
    code = (
        "import resource, sys\n"
        "from moca.data.readers.folder import read\n"
        "from moca.data.source import Options\n"
        "from pathlib import Path\n"
        "parts = [read(Path(sys.argv[1]), Options(workers=workers)).train for workers in (1, 2)]\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for part in parts:\n"
        "    assert sum(len(b.rows) for b in part.blocks(False)) == 40\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], capture_output=True, text=True, check=True)
    alone, together = map(int, done.stdout.split())
    assert alone / 1024 < 250
    assert together / 1024 < 250, "with two workers"


def test_mixed_sizes_are_named_and_can_be_brought_to_one(tmp_path, store_dir):
    source = made.folder(tmp_path / "a", made.small_set())
    (source / "train" / "class1" / "zz.png").write_bytes(made.png(made.pictures(1, side=16)[0]))
    with pytest.raises(
        MocaError, match=r"zz.png has 16x16 pixels, images before it 8x8; bring all to one size with size= "
    ):
        add("mine", source)
    assert not (store_dir / "names").exists()
    assert add("mine", source, size=12).info.shape == (12, 12, 3)


def test_grey_images_among_colour_ones_become_colour(tmp_path):
    data = made.small_set()
    source = made.folder(tmp_path / "a", data)
    grey = made.pictures(1, channels=1)[0]
    (source / "train" / "class2" / "zz.png").write_bytes(made.png(grey))
    assert add("mine", source).info.shape == (8, 8, 3)
    first = made.folder(tmp_path / "b", data)
    (first / "train" / "class0" / "0000.png").write_bytes(made.png(grey))
    assert add("mine", first).info.shape == (8, 8, 3)


def test_a_grey_training_set_with_one_colour_test_image_is_read_again_as_colour(tmp_path):
    data = made.small_set(channels=1)
    source = made.folder(tmp_path / "a", data)
    (source / "test" / "class0" / "zz.png").write_bytes(made.png(made.pictures(1)[0]))
    add("mine", source)
    images = load("mine").train.images
    assert images.shape[1] == 3 and (images[:, 0] == images[:, 2]).all()


def test_blocks_stay_small(tmp_path):
    paths = [str(tmp_path / f"{i}.png") for i in range(600)]
    chunks = list(decoders.file_chunks(paths)())
    assert [len(chunk) for chunk in chunks] == [32] * 18 + [24]
    assert Options().workers is None
