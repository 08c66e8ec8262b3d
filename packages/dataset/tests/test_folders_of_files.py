import json
import sys

import numpy as np
import pytest

from ingle.dataset import (
    CocoDetection,
    DataFileError,
    DataValueError,
    ImageFolder,
    Loader,
    MissingDataError,
    MissingExtraError,
    SampleError,
    SegmentationFolder,
    TextFolder,
    TextLines,
    collate_detections,
    read_image,
)

Image = pytest.importorskip("PIL.Image")


def save(path, pixels, mode=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels)).convert(mode).save(path)
    return path


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


@pytest.fixture
def animals(tmp_path, pixels):
    for i, name in enumerate(["dog/2.png", "cat/b.png", "cat/deep/a.PNG", "dog/1.jpg"]):
        save(tmp_path / name, pixels // (i + 1))
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    (tmp_path / "dog" / ".hidden.png").write_text("no image")
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("about")
    return tmp_path


class TestReadImage:
    def test_values_are_the_pixels(self, tmp_path, pixels):
        path = save(tmp_path / "a.png", pixels)
        read = read_image(path, dtype="uint8")
        np.testing.assert_array_equal(read, pixels.transpose(2, 0, 1))
        assert read.flags.c_contiguous
        scaled = read_image(path)
        assert (scaled.dtype, scaled.flags.c_contiguous) == (np.float32, True)
        np.testing.assert_array_equal(scaled, read.astype(np.float32) / 255)

    def test_modes(self, tmp_path, pixels):
        path = save(tmp_path / "a.png", pixels[..., 0])
        assert read_image(path, mode="L", dtype="uint8").tolist() == [pixels[..., 0].tolist()]
        assert (read_image(path)[1] == read_image(path, mode="L")[0]).all()
        assert read_image(path, mode="RGBA").shape == (4, 5, 7)
        wide = tmp_path / "wide.png"
        Image.fromarray(np.full((2, 2), 40_000, np.uint16)).save(wide)
        with pytest.raises(DataFileError, match=r"wide\.png: .* do not fit into 8 bits"):
            read_image(wide)

    def test_resizing_keeps_the_mean(self, tmp_path):
        ramp = np.add.outer(np.arange(40), np.arange(60)).astype(np.uint8)
        path = save(tmp_path / "a.png", ramp)
        small = read_image(path, size=(10, 15), mode="L", dtype="uint8")[0]
        assert small.shape == (10, 15)
        blocks = ramp.reshape(10, 4, 15, 4).mean((1, 3))
        np.testing.assert_allclose(small[1:-1, 1:-1], blocks[1:-1, 1:-1], atol=1)

    def test_a_file_cut_anywhere_is_refused(self, tmp_path, pixels):
        path = save(tmp_path / "a.png", pixels)
        data = path.read_bytes()
        for length in range(0, len(data) - 20, 11):
            path.write_bytes(data[:length])
            with pytest.raises(DataFileError, match=r"a\.png: no image can be read"):
                read_image(path)
        with pytest.raises(MissingDataError, match="no such file"):
            read_image(tmp_path / "none.png")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"mode": "CMYK"}, "got 'CMYK'"),
            ({"dtype": "float64"}, "got 'float64'"),
            ({"size": 8}, "height, width.*got 8"),
            ({"size": (8, 0)}, r"got \(8, 0\)"),
        ],
    )
    def test_options_that_make_no_sense(self, animals, options, message):
        with pytest.raises(DataValueError, match=message):
            read_image(animals / "dog" / "2.png", **options)
        with pytest.raises(DataValueError, match=message):
            ImageFolder(animals, **options)

    def test_without_pillow_the_error_says_what_to_install(self, animals, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "PIL", None)
        with pytest.raises(MissingExtraError, match=r'pip install "ingle-dataset\[images\]"'):
            ImageFolder(animals)


class TestImageFolder:
    def test_folders_are_classes(self, animals, pixels):
        images = ImageFolder(animals, dtype="uint8")
        assert images.classes == ("cat", "dog")
        names = [p.relative_to(animals).as_posix() for p in images.paths]
        assert names == ["cat/b.png", "cat/deep/a.PNG", "dog/1.jpg", "dog/2.png"]
        assert images.labels.tolist() == [0, 0, 1, 1]
        image, label = images[-1]
        np.testing.assert_array_equal(image, pixels.transpose(2, 0, 1))
        assert label == 1
        assert "4 images, 2 classes" in repr(images)

    def test_batches(self, animals):
        (x, y), _ = Loader(ImageFolder(animals, size=(4, 4)), 3, tensors=False)
        assert (x.shape, x.dtype, y.tolist()) == ((3, 3, 4, 4), np.float32, [0, 0, 1])
        save(animals / "dog" / "0.png", np.zeros((2, 2), np.uint8))
        with pytest.raises(ValueError, match="resize or pad"):
            list(Loader(ImageFolder(animals), tensors=False))

    def test_classes_of_another_folder(self, animals):
        images = ImageFolder(animals, classes=["dog", "cat"])
        assert images.labels.tolist() == [0, 0, 1, 1]
        assert images.paths[0].parent.name == "dog"
        with pytest.raises(MissingDataError, match="for the class 'cow', only 'cat', 'dog'"):
            ImageFolder(animals, classes=["cow"])
        with pytest.raises(DataValueError, match="list of names"):
            ImageFolder(animals, classes="cat")

    def test_folders_that_are_not_as_expected(self, animals, tmp_path):
        with pytest.raises(MissingDataError, match="no such folder"):
            ImageFolder(tmp_path / "none")
        with pytest.raises(MissingDataError, match="it is no folder"):
            ImageFolder(animals / "README.md")
        with pytest.raises(DataFileError, match="no folders of classes"):
            ImageFolder(animals / "dog")
        (animals / "cow").mkdir()
        with pytest.raises(DataFileError, match=r"the class 'cow' has no files that end in \.bmp"):
            ImageFolder(animals)

    def test_a_corrupt_image_is_named_in_the_loop(self, animals):
        (animals / "cat" / "b.png").write_bytes(b"x")
        with pytest.raises(SampleError, match=r"sample 0 of ImageFolder .*b\.png"):
            list(Loader(ImageFolder(animals)))


class TestSegmentation:
    @pytest.fixture
    def pair(self, tmp_path, pixels):
        mask = np.arange(35, dtype=np.uint8).reshape(5, 7) % 4
        save(tmp_path / "images" / "x" / "1.jpg", pixels)
        save(tmp_path / "masks" / "x" / "1.png", mask)
        return tmp_path / "images", tmp_path / "masks", mask

    def test_masks_are_labels(self, pair):
        images, masks, mask = pair
        image, labels = SegmentationFolder(images, masks, classes=4)[0]
        assert (image.shape, labels.dtype) == ((3, 5, 7), np.int64)
        np.testing.assert_array_equal(labels, mask)

    def test_resizing_makes_up_no_class(self, pair):
        images, masks, mask = pair
        image, labels = SegmentationFolder(images, masks, size=(10, 14))[0]
        assert image.shape == (3, 10, 14)
        np.testing.assert_array_equal(labels, mask.repeat(2, 0).repeat(2, 1))
        _, labels = SegmentationFolder(images, masks, size=(5, 1))[0]
        np.testing.assert_array_equal(labels[:, 0], mask[:, 3])

    def test_palettes_are_indices(self, pair):
        images, masks, mask = pair
        coloured = Image.fromarray(mask)
        coloured.putpalette([9, 9, 9, 200, 0, 0, 0, 200, 0, 0, 0, 200])
        coloured.save(masks / "x" / "1.png")
        np.testing.assert_array_equal(SegmentationFolder(images, masks)[0][1], mask)

    def test_pixels_of_no_class(self, pair):
        images, masks, mask = pair
        mask[2, 3] = 255
        save(masks / "x" / "1.png", mask)
        with pytest.raises(DataFileError, match=r"1\.png: the pixel at row 2, column 3 is 255"):
            SegmentationFolder(images, masks, classes=4)[0]
        assert SegmentationFolder(images, masks, classes=4, ignore=255)[0][1].max() == 255

    def test_pairs_that_do_not_fit(self, pair, pixels):
        images, masks, _ = pair
        save(masks / "x" / "1.png", pixels[:4, :, 0])
        with pytest.raises(DataFileError, match=r"7x4 pixels, and 1\.jpg has 7x5"):
            SegmentationFolder(images, masks)[0]
        save(masks / "x" / "1.png", pixels)
        with pytest.raises(DataFileError, match="the mask is a RGB image"):
            SegmentationFolder(images, masks)[0]
        save(images / "2.png", pixels)
        with pytest.raises(MissingDataError, match=r"images/2: .*masks has no file.*1 of 2"):
            SegmentationFolder(images, masks)
        save(images / "2.jpg", pixels)
        with pytest.raises(DataFileError, match=r"has the same name but for its ending"):
            SegmentationFolder(images, masks)
        (images.parent / "empty").mkdir()
        with pytest.raises(DataFileError, match="there are no images"):
            SegmentationFolder(images.parent / "empty", masks)


class TestCoco:
    @pytest.fixture
    def notes(self, tmp_path):
        for name, shape in (("a.png", (10, 20)), ("b.png", (4, 4))):
            save(tmp_path / name, np.zeros(shape, np.uint8))
        return {
            "images": [
                {"id": 5, "file_name": "a.png", "width": 20, "height": 10},
                {"id": 3, "file_name": "b.png"},
            ],
            "categories": [{"id": 90, "name": "cat"}, {"id": 7, "name": "dog"}],
            "annotations": [
                {"id": 1, "image_id": 5, "category_id": 90, "bbox": [2, 1, 4, 5]},
                {"id": 2, "image_id": 5, "category_id": 7, "bbox": [0.5, 0, 1, 1], "iscrowd": 1},
            ],
        }

    def made(self, tmp_path, notes, **options):
        (tmp_path / "notes.json").write_text(json.dumps(notes))
        return CocoDetection(tmp_path / "notes.json", tmp_path, **options)

    def test_boxes_and_labels(self, tmp_path, notes):
        data = self.made(tmp_path, notes)
        assert (data.classes, data.category_ids) == (("dog", "cat"), (7, 90))
        image, target = data[0]
        assert image.shape == (3, 10, 20)
        assert target["boxes"].tolist() == [[2, 1, 6, 6], [0.5, 0, 1.5, 1]]
        assert target["labels"].tolist() == [1, 0]
        assert target["crowd"].tolist() == [False, True]
        assert target["image_id"] == 5
        assert data[1][1]["boxes"].shape == (0, 4)
        assert "2 images, 2 classes" in repr(data)

    def test_boxes_follow_the_size(self, tmp_path, notes):
        data = self.made(tmp_path, notes, size=(20, 10), mode="L")
        image, target = data[0]
        assert image.shape == (1, 20, 10)
        assert target["boxes"].tolist() == [[1, 2, 3, 12], [0.25, 0, 0.75, 2]]
        (images, targets), *_ = Loader(data, 2, collate=collate_detections, tensors=False)
        assert images.shape == (2, 1, 20, 10)
        assert [len(t["labels"]) for t in targets] == [2, 0]
        uneven, _ = collate_detections([self.made(tmp_path, notes)[i] for i in range(2)])
        assert [i.shape for i in uneven] == [(3, 10, 20), (3, 4, 4)]

    @pytest.mark.parametrize(
        ("part", "number", "change", "message"),
        [
            ("annotations", 1, {"image_id": 9}, "annotation 2 is of the image 9"),
            ("annotations", 1, {"category_id": 9}, "annotation 2 is of the category 9"),
            ("annotations", 0, {"bbox": [1, 2, 3]}, r"annotation 1 has the bbox \[1, 2, 3\]"),
            ("annotations", 0, {"bbox": [1, 2, 0, 3]}, "width and height must be above zero"),
            ("annotations", 0, {"bbox": [1, 2, float("nan"), 3]}, "expected .left, top, width"),
            ("annotations", 0, {"bbox": [1, [2], 3, 4]}, "expected .left, top, width"),
            ("annotations", 0, {"image_id": [5]}, r"image_id \[5\]; expected an integer"),
            ("annotations", 0, {"bbox": "1234"}, "expected .left, top, width"),
            ("annotations", 1, {"id": 1}, r"annotations\[1\] has the id 1, which another"),
            ("images", 0, {"id": "x"}, r"images\[0\] has the id 'x'; expected an integer"),
        ],
    )
    def test_bad_annotations_are_named(self, tmp_path, notes, part, number, change, message):
        notes[part][number].update(change)
        with pytest.raises(DataFileError, match=r"notes\.json: .*" + message):
            self.made(tmp_path, notes)

    def test_files_of_another_form(self, tmp_path, notes):
        path = tmp_path / "notes.json"
        with pytest.raises(MissingDataError, match="no such file"):
            CocoDetection(path, tmp_path)
        with pytest.raises(
            DataFileError, match=r"comes first: CocoDetection\(annotations, folder\)"
        ):
            CocoDetection(tmp_path, path)
        for text, message in (
            ("{", "it is no JSON"),
            ("[1]", "the lists images, categories, annotations, got list"),
            ('{"images": []}', "got images"),
            ('{"images": [{"id": 1}], "categories": [], "annotations": []}', "no 'file_name'"),
            ('{"images": [3], "categories": [], "annotations": []}', r"images\[0\] has no 'id'"),
        ):
            path.write_text(text)
            with pytest.raises(DataFileError, match=message):
                CocoDetection(path, tmp_path)
        notes["images"][0]["width"] = 21
        with pytest.raises(DataFileError, match=r"a\.png: .*20x10 pixels, and .* says 21x10"):
            self.made(tmp_path, notes)[0]


class TestText:
    def test_folders_are_classes(self, tmp_path):
        for name, text in (("b/1.txt", "eins\r\nzwei"), ("a/x/2.txt", "äh"), ("a/1.TXT", "one")):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(text.encode())
        texts = TextFolder(tmp_path)
        assert [(t, int(y)) for t, y in texts] == [("one", 0), ("äh", 0), ("eins\nzwei", 1)]
        assert "3 texts, 2 classes" in repr(texts)
        words, labels = next(iter(Loader(texts, 3, tensors=False)))
        assert words == ["one", "äh", "eins\nzwei"]
        assert labels.tolist() == [0, 0, 1]
        with pytest.raises(DataFileError, match=r"2\.txt: the bytes c3 a4 68 at 0 are not ascii"):
            TextFolder(tmp_path, encoding="ascii")[1]
        with pytest.raises(DataValueError, match="no encoding 'nope'"):
            TextFolder(tmp_path, encoding="nope")[1]
        with pytest.raises(DataFileError, match=r"no files that end in \.md"):
            TextFolder(tmp_path, suffixes=[".md"])

    def test_lines(self, tmp_path):
        path = tmp_path / "lines"
        path.write_bytes(b"a\r\n \n\n  b\x0cc\nd")
        assert list(TextLines(path)) == ["a", "  b\x0cc", "d"]
        assert [len(w) for w in TextLines(path).windows(2)] == [2, 2]
        with pytest.raises(MissingDataError, match="no such file"):
            TextLines(tmp_path / "none")
        with pytest.raises(DataFileError, match="Is a directory"):
            TextLines(tmp_path)


def test_a_draft_of_a_large_jpeg_is_nearly_the_same(tmp_path):
    pil = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    rough = pil.fromarray(rng.integers(0, 256, (12, 16, 3)).astype(np.uint8))
    (tmp_path / "a").mkdir()
    rough.resize((400, 300), pil.Resampling.BICUBIC).save(tmp_path / "a" / "1.jpg", quality=90)
    for size, same in (((140, 180), False), ((200, 260), True)):
        exact, fast = (
            ImageFolder(tmp_path, size=size, draft=draft)[0][0] for draft in (False, True)
        )
        assert exact.shape == fast.shape == (3, *size)
        assert np.array_equal(exact, fast) == same
        assert np.abs(exact - fast).mean() < 1 / 255


class TestFastResizing:
    """Images resized by vectors of the processor, beside Pillow's."""

    @pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
    def test_is_one_grey_level_away_at_most(self, tmp_path, mode):
        pytest.importorskip("cykooz_resizer")
        rng = np.random.default_rng(0)
        for i in range(20):
            h, w, *size = (int(n) for n in rng.integers(1, 90, 4))
            path = tmp_path / f"{i}.png"
            pixels = rng.integers(0, 256, (h, w, len(mode))).astype(np.uint8)
            Image.fromarray(pixels[..., 0] if mode == "L" else pixels).save(path)
            pillow, fast = (
                read_image(path, size=tuple(size), mode=mode, dtype="uint8", fast=fast).astype(int)
                for fast in (False, True)
            )
            assert pillow.shape == fast.shape == (len(mode), *size)
            levels = np.abs(pillow - fast)
            if mode == "RGBA":  # resized as colors times opacity, and divided again
                levels[:3] = levels[:3] * pillow[3:] // 255
            assert levels.max() <= (2 if mode == "RGBA" else 1)

    def test_of_folders_masks_and_boxes(self, tmp_path, pixels):
        pytest.importorskip("cykooz_resizer")
        save(tmp_path / "i" / "a.png", pixels)
        save(tmp_path / "m" / "a.png", pixels[..., 0] % 3, "L")
        notes = tmp_path / "notes.json"
        notes.write_text(
            json.dumps(
                {
                    "images": [{"id": 1, "file_name": "i/a.png"}],
                    "categories": [],
                    "annotations": [],
                }
            )
        )
        wanted = read_image(tmp_path / "i" / "a.png", size=(3, 9), fast=True)
        for found in (
            ImageFolder(tmp_path, size=(3, 9), fast=True)[0][0],
            SegmentationFolder(tmp_path / "i", tmp_path / "m", size=(3, 9), fast=True)[0][0],
            CocoDetection(notes, tmp_path, size=(3, 9), fast=True)[0][0],
        ):
            assert np.array_equal(found, wanted)

    def test_in_threads(self, tmp_path, pixels):
        pytest.importorskip("cykooz_resizer")
        for i in range(24):
            save(tmp_path / "a" / f"{i:02}.png", np.roll(pixels, i, axis=1))
        folder = ImageFolder(tmp_path, size=(30, 20), fast=True)
        alone, many = (
            np.concatenate([images for images, _ in Loader(folder, 5, workers=n, tensors=False)])
            for n in (0, 4)
        )
        assert np.array_equal(alone, many)

    def test_says_what_it_needs(self, tmp_path, pixels, monkeypatch):
        monkeypatch.setitem(sys.modules, "cykooz_resizer", None)
        path = save(tmp_path / "a" / "1.png", pixels)
        with pytest.raises(MissingExtraError, match=r"ingle-dataset\[fast-images\]"):
            read_image(path, size=(2, 2), fast=True)
        with pytest.raises(MissingExtraError, match=r"ingle-dataset\[fast-images\]"):
            ImageFolder(tmp_path, fast=True)
        assert read_image(path, size=(2, 2)).shape == (3, 2, 2)
