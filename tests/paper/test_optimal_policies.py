import pytest

from cmdpax.paper.optimal_policies import optimal_policy


@pytest.mark.parametrize(
    ("problem", "reward"), [("cliff-world", "0.655402"), ("deep-sea", "0.392671")]
)
def test_the_optimum_is_drawn_with_its_reward(problem, reward):
    assert reward in optimal_policy(problem).axes[0].get_title()
