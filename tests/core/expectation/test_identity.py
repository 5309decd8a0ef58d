"""What makes another profile, what is only judged, and what does not matter at all."""

import pytest

from ddwatch.core.expectation.identity import (
    Identity,
    identity_differences,
    identity_of,
    judged_differences,
    judged_of,
    key_of,
)

ARGUMENTS: dict[str, object] = {
    "model_path": "moonshotai/Kimi-K2.6",
    "speculative_draft_model_path": "someone/drafter",
    "speculative_algorithm": "DDTREE",
    "speculative_ddtree_tree_budget": 32,
    "speculative_dflash_block_size": 16,
    "tp_size": 8,
    "dp_size": 1,
    "quantization": "fp8",
    "attention_backend": "triton",
    "version": "0.5.12",
    "tool_call_parser": "kimi_k2",
    "port": 30000,
}


def test_identity_is_read_from_the_arguments() -> None:
    assert identity_of(ARGUMENTS, gpus=["NVIDIA RTX PRO 6000"] * 8) == Identity(
        model="moonshotai/Kimi-K2.6",
        draft_model="someone/drafter",
        gpu="NVIDIA RTX PRO 6000",
        gpu_count=8,
        tp=8,
        dp=1,
        quantization="fp8",
        algorithm="DDTREE",
        tree_budget=32,
        block_size=16,
    )


def test_what_the_drafter_announced_counts_more() -> None:
    announced = identity_of(ARGUMENTS, tree_budget=64, block_size=8)
    assert (announced.tree_budget, announced.block_size) == (64, 8)


def test_odd_values_are_not_known_instead_of_wrong() -> None:
    odd = identity_of({"tp_size": True, "dp_size": "two", "model_path": None, "quantization": ""}, gpus=["A", "B"])
    assert odd == Identity(gpu="A + B", gpu_count=2)


def test_parsers_and_ports_are_ignored_and_the_backend_is_judged() -> None:
    judged = judged_of(ARGUMENTS)
    assert judged == {"attention_backend": "triton", "version": "0.5.12"}
    assert judged_of({}, "0.5.13") == {"version": "0.5.13"}


def test_a_restart_with_other_parsers_is_the_same_service() -> None:
    restarted = {**ARGUMENTS, "tool_call_parser": "other", "reasoning_parser": "kimi", "port": 1}
    assert identity_differences(identity_of(ARGUMENTS), identity_of(restarted)) == ()
    assert judged_differences(judged_of(ARGUMENTS), judged_of(restarted)) == ()


def test_another_budget_is_another_service_and_another_backend_is_not() -> None:
    (budget,) = identity_differences(
        identity_of(ARGUMENTS), identity_of({**ARGUMENTS, "speculative_ddtree_tree_budget": 64})
    )
    assert budget.sentence() == "tree_budget: the profile has 32, the service 64"
    (backend,) = judged_differences(
        judged_of(ARGUMENTS), judged_of({**ARGUMENTS, "attention_backend": "flashinfer", "new": 1})
    )
    assert (backend.kind, backend.name) == ("judged", "attention_backend")


def test_what_one_side_does_not_know_is_no_difference() -> None:
    assert identity_differences(identity_of(ARGUMENTS), Identity(model="Kimi-K2.6")) == ()


def test_names_are_compared_without_owner_and_vendor() -> None:
    ours = Identity(model="moonshotai/Kimi-K2.6", gpu="NVIDIA RTX PRO 6000 Blackwell Server Edition")
    theirs = Identity(model="Kimi-K2.6/", gpu="RTX PRO 6000  Blackwell Server")
    assert identity_differences(ours, theirs) == ()


def test_the_key_is_a_safe_file_name_that_tells_services_apart() -> None:
    first, second = identity_of(ARGUMENTS), identity_of({**ARGUMENTS, "tp_size": 4})
    assert key_of(first) != key_of(second)
    assert key_of(first) == "kimi-k2.6-ddtree-32-8-1-fp8"
    assert key_of(Identity(model="../../etc/passwd")) == "passwd"
    assert key_of(Identity()) == "service"


@pytest.mark.parametrize(
    ("theirs", "same"),
    [
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", True),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", True),
        ("RTX PRO 6000 Blackwell", True),
        ("NVIDIA RTX PRO 6000", False),
        ("NVIDIA RTX PRO 6000 Blackwell Ultra", False),
        ("NVIDIA H200", False),
    ],
)
def test_a_gpu_named_without_its_edition_is_of_any_edition(theirs: str, same: bool) -> None:
    ours = Identity(model="m", gpu="NVIDIA RTX PRO 6000 Blackwell")
    assert (identity_differences(ours, Identity(model="m", gpu=theirs)) == ()) is same


def test_two_editions_differ() -> None:
    server = Identity(model="m", gpu="NVIDIA RTX PRO 6000 Blackwell Server Edition")
    workstation = Identity(model="m", gpu="NVIDIA RTX PRO 6000 Blackwell Workstation Edition")
    assert identity_differences(server, workstation) != ()
