from pathlib import Path

from utils.reference import reference


def test_the_page_of_options_is_current():
    page = Path(__file__).parents[2] / "docs" / "options.md"
    assert page.read_text() == reference(), "run `make docs`"
