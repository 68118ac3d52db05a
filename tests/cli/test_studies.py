from calls import call


def test_demo(capsys, tmp_path):
    code, out, _ = call(capsys, "demo", "--out", str(tmp_path))
    assert code == 0 and out.count("verified: certified") == 2
    assert {path.name for path in tmp_path.iterdir()} == {
        "cliff-world.png",
        "deep-sea.png",
        "alm-against-primal-dual.png",
    }


def test_reproduce_draws_one_figure(capsys, tmp_path):
    code, out, _ = call(
        capsys, "reproduce", "tabular", "--figure", "deep-sea-policy", "--out", str(tmp_path)
    )
    assert code == 0 and "deep-sea-policy.png" in out
    assert (tmp_path / "deep-sea-policy.png").stat().st_size > 5000


def test_what_does_not_belong_to_a_study_is_refused(capsys, tmp_path):
    code, _, err = call(capsys, "reproduce", "tabular", "--fraction", "0.5", "--out", str(tmp_path))
    assert code == 2 and "fraction" in err
