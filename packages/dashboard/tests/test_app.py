"""The dashboard under Textual's pilot: what it shows, in which sizes, and what the keys do."""

import asyncio
import json
import time

import numpy as np
import pytest
import run_files
from textual.widgets import RichLog

from ingle.dashboard import read_run
from ingle.dashboard.app import DashboardApp
from ingle.dashboard.canvas import Canvas, Curve, limits, short, smoothed, ticks
from ingle.dashboard.dialogs import Keys, Question
from ingle.dashboard.model_view import ModelView
from ingle.dashboard.plots import Plot, names_of


def piloted(test, folder, size=(100, 30), **options):
    """Runs `test(app, pilot)` with the dashboard of a folder in a terminal of a size."""

    async def run():
        app = DashboardApp(read_run(folder), **options)
        async with app.run_test(size=size) as pilot:
            for _ in range(50):  # until the page is laid out
                await pilot.pause()
                shown_plots = [p for p in app.query(Plot) if p.display and p.metric]
                if shown_plots and min(p.size.width for p in shown_plots) > 20:
                    break
                if app.screen.has_class("-small"):
                    break
            await pilot.pause()
            await test(app, pilot)
        return app

    return asyncio.run(run())


def look_at(app):
    app._looked_at = -1e9  # at once, whatever drawing has cost so far
    app.look()


def shown(app):
    """The lines of the screen."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


def wishes(folder):
    path = folder / "wishes.jsonl"
    return (
        [json.loads(line)["wish"] for line in path.read_text().splitlines() if line]
        if path.exists()
        else []
    )


def test_everything_is_there_in_80_by_24(tmp_path):
    async def look(app, pilot):
        lines = shown(app)
        text = "\n".join(lines)
        assert len(lines) == 24
        assert all(len(line) == 80 for line in lines)
        for found in (
            "1 plots", "2 model", "3 log", "numpy", "● training", "epoch 3/4", "62%", "gone",
            "left", "batch 25/50", "step 125", " loss ", " accuracy ", "samples/s", "learning rate",
            "a step takes", "forward", "backward", "40%", "processors", "1.5 of 2", "63 °C",
            "memory", "train 0.", "valid 0.5", "s Stop", "p Pause", "c Save", "q Close",
            "epoch 2/4",
        ):  # fmt: skip
            assert found in text, f"{found!r} is missing in\n{text}"
        assert any(0x2801 <= ord(c) <= 0x28FF for c in text), "no curve"

    piloted(look, run_files.write(tmp_path), (80, 24))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [(60, 16), (80, 24), (110, 34), (140, 45), (200, 60), (61, 60)])
def test_pages_of_all_sizes_hold_plots(tmp_path, size):
    async def look(app, pilot):
        text = "\n".join(shown(app))
        assert "too small" not in text
        assert "q Close" in text or size[0] < 75
        plots = [p for p in app.query(Plot) if p.display]
        assert plots[0].metric == "loss"
        for plot in plots:
            assert plot.size.width >= 25
            assert plot.size.height >= 3

    piloted(look, run_files.write(tmp_path), size)


def test_a_terminal_that_is_too_small_says_so_and_may_grow(tmp_path):
    async def look(app, pilot):
        text = "\n".join(shown(app))
        assert "40x10 is too small" in text
        assert "make it 60x16, or more" in text
        assert "epoch" not in text
        for size in ((1, 1), (80, 24), (2, 60), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert "epoch 3/4" in "\n".join(shown(app))

    piloted(look, run_files.write(tmp_path), (40, 10))


def test_it_follows_a_run_that_grows(tmp_path):
    async def look(app, pilot):
        assert "waiting for the first numbers" in "\n".join(shown(app))
        run_files.append(tmp_path, *list(run_files.lines())[1:60])
        look_at(app)
        await pilot.pause()
        text = "\n".join(shown(app))
        assert "step 55" in text
        assert "epoch 2/4" in text

    run_files.append(tmp_path, next(iter(run_files.lines())))
    piloted(look, tmp_path)


@pytest.mark.slow
def test_keys_of_the_plots(tmp_path):
    async def look(app, pilot):
        names = names_of(app.run_shown)
        assert names[:3] == ["loss", "accuracy", "gradient norm"]
        seen = [p.metric for p in app.query(Plot) if p.display]
        await pilot.press("right")
        after = [p.metric for p in app.query(Plot) if p.display]
        assert after == names[len(seen) : 2 * len(seen)]
        await pilot.press("left", "z")
        assert [p.metric for p in app.query(Plot) if p.display] == ["loss"]
        await pilot.press("z", "r", "l", "plus")
        assert (app.view.recent, app.view.logarithmic, app.view.smoothing) == (True, True, 0.9)
        await pilot.press(*["minus"] * 9)
        assert app.view.smoothing == 0.0
        await pilot.press("t")
        assert app.theme == "ingle-light"

    piloted(look, run_files.write(tmp_path), (80, 24))


def test_the_model_with_its_norms(tmp_path):
    async def look(app, pilot):
        await pilot.press("2")
        await pilot.pause()
        table = app.query_one(ModelView)
        rows = [[cell.plain for cell in table.get_row_at(i)] for i in range(table.row_count)]
        root = (9 + 16 + 1) ** 0.5
        assert rows[0] == ["Net", "21", short(root), "0.5", short(float(f"{0.5 / root:.2g}"))]
        assert rows[2] == ["    0 Linear", "15", "5", "0.5", "0.1"]
        assert rows[3] == ["      weight", "12", "3", "0.3", "0.1"]
        assert rows[-1] == ["    weight", "6", "1", "0", "0"]

    piloted(look, run_files.write(tmp_path))


def test_the_log(tmp_path):
    async def look(app, pilot):
        await pilot.press("3")
        await pilot.pause()
        text = "\n".join(shown(app))
        assert "printed by the program" in text
        assert "100%" in text
        assert "10%" not in text, "a carriage return writes over the line"
        assert "\x1b" not in text
        assert len(app.query_one("#fulllog", RichLog).lines) >= len(app.run_shown.log) == 4

    folder = run_files.write(tmp_path)
    (folder / "output.log").write_bytes(b"printed by \x1b[31mthe program\x1b[0m\n10%\r100%\n")
    piloted(look, folder)


def test_who_reads_further_up_in_the_log_stays_there(tmp_path):
    async def look(app, pilot):
        log = app.query_one("#fulllog", RichLog)

        async def print_lines(first):
            with (folder / "output.log").open("a") as file:
                file.writelines(f"line {k}\n" for k in range(first, first + 100))
            look_at(app)
            await pilot.pause()

        await pilot.press("3")
        await print_lines(0)
        assert "line 99" in "\n".join(shown(app))
        await pilot.press("home")
        await pilot.pause(0.5)
        await print_lines(100)
        assert log.scroll_y == 0
        await pilot.press("end")
        await pilot.pause(0.5)
        await print_lines(200)
        assert "line 299" in "\n".join(shown(app))

    folder = run_files.write(tmp_path)
    piloted(look, folder)


def test_pause_save_and_stop(tmp_path):
    async def look(app, pilot):
        await pilot.press("p")
        assert "pausing" in shown(app)[0]
        run_files.append(tmp_path, {"kind": "state", "time": time.time(), "state": "paused"})
        look_at(app)
        await pilot.pause()
        assert "paused" in shown(app)[0]
        await pilot.press("p", "c", "s")
        assert isinstance(app.screen, Question)
        await pilot.press("n", "ctrl+c")
        assert isinstance(app.screen, Question)
        assert "write a checkpoint" in "\n".join(shown(app))
        await pilot.press("y")
        assert wishes(tmp_path) == ["pause", "resume", "checkpoint", "stop"]

    piloted(look, run_files.write(tmp_path))


def test_a_finished_run_takes_no_wishes(tmp_path):
    async def look(app, pilot):
        assert "✓ finished" in shown(app)[0]
        await pilot.press("p", "c", "s")
        await pilot.pause()
        assert "this training is finished" in shown(app)[0]
        assert not isinstance(app.screen, Question)
        assert wishes(tmp_path) == []

    piloted(look, run_files.write(tmp_path, ended=True))


def test_the_keys_are_told_and_q_closes(tmp_path):
    async def look(app, pilot):
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, Keys)
        text = "\n".join(shown(app))
        assert "a logarithmic axis" in text
        assert "epoch" in text, "the page shows through"
        await pilot.press("escape", "q")
        await pilot.pause()

    assert piloted(look, run_files.write(tmp_path)).return_value == "closed"


def test_damage_while_it_is_open_is_told(tmp_path):
    async def look(app, pilot):
        with (tmp_path / "run.jsonl").open("a") as file:
            file.write("nonsense\n")
        look_at(app)
        await pilot.pause()
        assert "damaged" in shown(app)[0]

    piloted(look, run_files.write(tmp_path), (200, 30))


def test_a_look_after_the_page_has_gone_draws_nothing(tmp_path):
    async def look(app, pilot):
        await app.query("#page").remove()
        app.draw()
        app.look()

    piloted(look, run_files.write(tmp_path), (80, 24))


def test_beside_a_training_it_closes_with_it(tmp_path):
    async def look(app, pilot):
        look_at(app)
        await pilot.pause()

    app = piloted(look, run_files.write(tmp_path), parent=1 << 22)
    assert app.return_value == "parent"


def test_curves_lie_where_their_numbers_are():
    canvas = Canvas(20, 5)
    x = np.linspace(0, 1, 50)
    canvas.draw(Curve(x, x**2, "red"), (0, 1), (0, 1))
    columns = ["".join(canvas.text(row)[c] for row in range(5)) for c in range(20)]
    for c, column in enumerate(columns):
        middle = ((c + 0.5) / 20) ** 2
        rows = [4 - r for r, char in enumerate(column) if char != " "]
        assert rows
        assert min(rows) - 0.6 <= middle * 5 <= max(rows) + 1.6
    assert {style for row in range(5) for char, style in canvas.cells(row) if char != " "} == {
        "red"
    }


def test_spikes_between_columns_are_seen():
    y = np.zeros(100_000)
    y[54_321] = 1.0
    canvas = Canvas(40, 4)
    canvas.draw(Curve(np.arange(100_000.0), y, "red"), (0, 99_999), (0, 1))
    assert canvas.text(0).strip()
    assert canvas.text(0).index(canvas.text(0).strip()) == 54_321 * 40 // 100_000


def test_nan_interrupts_a_curve():
    canvas = Canvas(10, 1)
    y = np.array([0.5, 0.5, np.nan, np.nan, 0.5, 0.5])
    canvas.draw(Curve(np.arange(6.0), y, "red"), (0, 5), (0, 1))
    assert " " in canvas.text(0).strip()
    empty = Canvas(3, 1)
    empty.draw(Curve(np.array([1.0]), np.array([np.nan]), "red"), (0, 1), (0, 1))
    assert empty.text(0).strip() == ""


@pytest.mark.parametrize("weight", [0.5, 0.9, 0.99, 0.999])
def test_smoothing_is_the_average_without_bias(weight):
    y = np.random.default_rng(0).normal(size=3000) + 5
    top = bottom = 0.0
    for i, value in enumerate(y):
        top, bottom = top * weight + value, bottom * weight + 1
        y_i = top / bottom
        if i in (0, 1, 100, 2999):
            np.testing.assert_allclose(smoothed(y, weight)[i], y_i, rtol=1e-12)


def test_numbers_at_the_axes():
    for low, high, count in ((0, 1, 4), (-3, 7, 5), (1e-5, 2e-5, 3), (0, 123456, 6)):
        found = ticks(low, high, count)
        assert low <= found[0] < found[-1] <= high
        assert count / 2 - 1 <= len(found) <= 2 * count + 1
    assert limits([np.array([2.0, 2.0])], False) == (1.8, 2.2)
    wild = np.concatenate([np.linspace(1, 2, 1000), [1e9]])
    assert limits([wild], False)[1] < 4
    for nothing in ([np.nan], [-1.0], []):
        assert limits([np.array(nothing)], True)[0] > 0
    assert limits([np.array([-1.0, 1.0, 100.0])], True)[0] > 0.5
