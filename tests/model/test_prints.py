from cmdpax.model.prints import Printed, as_html, as_text

ROWS = [("name", "a text of its own"), ("head", "x", "long"), ("a longer name", "12.5", "1")]


def test_cells_are_aligned_and_lines_are_not():
    assert as_text(ROWS).splitlines() == [
        "name           a text of its own",
        "head              x  long",
        "a longer name  12.5     1",
    ]


def test_rows_of_two_cells_are_lines():
    assert as_text([("one", "1"), ("three", "3  ")]) == "one    1\nthree  3"
    assert as_text([]) == ""


def test_html_says_the_same_and_escapes():
    html = as_html("a <title>", ROWS)
    assert "<caption>a &lt;title&gt;</caption>" in html and html.count("<tr>") == 3
    assert "colspan='2'>a text of its own<" in html and "colspan='1'>12.5<" in html
    assert "<script>" not in as_html("t", [("x", "<script>")])
    assert as_html("nothing", []).endswith("<tbody></tbody></table>")


def test_what_has_rows_and_a_title_prints_itself():
    class Two(Printed):
        _title = "two"

        def _rows(self):
            return [("one", "1"), ("three", "3")]

    assert str(Two()) == "one    1\nthree  3"
    assert Two()._repr_html_() == as_html("two", [("one", "1"), ("three", "3")])
