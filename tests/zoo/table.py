"""The zoo: flows that are nondeterministic or unsafe, and who catches each; and flows that only look so.

`caught_by` is `check` (the static rules of `loom check`, by the rule named), `guard` (`loom run --strict`, while it really
happens) or `divergence` (the replay that asks for something else). A flow in `bad/` without a row here, or a row without a
flow, fails the tests.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple


class Case(NamedTuple):
    """A bad flow: who catches it, and the rule by which `check` does ("" where it cannot know)."""

    caught_by: Literal["check", "guard", "divergence"]
    rule: str = ""


def check(rule: str) -> Case:
    return Case("check", rule)


BAD: Final[dict[str, Case]] = {
    # bad/clocks.py
    "wall_clock": check("clock"),
    "naive_now": check("clock"),
    "aware_now": check("clock"),
    "today": check("clock"),
    "aliased_monotonic": check("clock"),
    "clock_two_helpers_deep": check("clock"),
    "clock_behind_a_name": check("clock"),
    "clock_in_a_default": check("clock"),
    "clock_in_a_method": check("clock"),
    "blocking_sleep": check("sleep"),
    # bad/chance.py
    "lot": check("random"),
    "lot_among": check("random"),
    "unseeded_generator": check("random"),
    "fresh_id": check("random"),
    "fresh_secret": check("random"),
    "chance_in_another_module": check("random"),
    "chance_in_a_branch": check("random"),
    "chance_in_a_lambda": check("random"),
    "chance_at_import": check("import-time"),
    "environment": check("environment"),
    "environment_at_import": check("import-time"),
    "which_machine": check("environment"),
    "address_of_an_object": check("identity"),
    "hash_of_a_text": check("identity"),
    # bad/world.py
    "reads_a_file": check("io"),
    "reads_a_path": check("io"),
    "lists_a_folder": check("io"),
    "opens_a_database": check("io"),
    "asks_the_network": check("network"),
    "opens_a_socket": check("network"),
    "starts_a_process": check("process"),
    "prints": check("log"),
    "logs_at_every_replay": check("log"),
    "writes_when_put_away": check("io"),
    # bad/concurrency.py
    "gathers_helpers": check("bare-concurrency"),
    "helper_as_a_task": check("bare-concurrency"),
    "helpers_in_a_group": check("bare-concurrency"),
    "first_of_a_set": check("bare-concurrency"),
    "time_limit": check("bare-concurrency"),
    "wait_for": check("bare-concurrency"),
    "plain_sleep": check("sleep"),
    "in_a_thread": check("threads"),
    "own_thread": check("threads"),
    "own_pool": check("threads"),
    "context_in_an_inline_step": check("foreign-context"),
    "bare_step": check("bare-step"),
    "forgotten_await": check("not-awaited"),
    # bad/order.py
    "loop_over_a_set": check("set-order"),
    "comprehension_over_a_set": check("set-order"),
    "list_of_a_set": check("set-order"),
    "dict_from_a_set": check("set-order"),
    "pops_a_set": check("set-order"),
    "maps_a_set": check("set-order"),
    "set_from_a_helper": check("set-order"),
    "set_in_the_input": check("set-order"),
    # bad/state.py
    "cache_of_the_module": check("global-mutation"),
    "global_counter": check("global-mutation"),
    "global_numbers": check("global-mutation"),
    "list_of_another_module": check("global-mutation"),
    "attribute_of_a_class": check("global-mutation"),
    "default_that_grows": check("mutable-default"),
    "context_kept": check("global-mutation"),
    "bare_except": check("broad-except"),
    "except_base_exception": check("broad-except"),
    "suppresses_all": check("broad-except"),
    "return_in_finally": check("broad-except"),
    "swallows_a_cancellation": check("broad-except"),
    "one_name_in_a_loop": check("loop-id"),
    "one_key_in_a_loop": check("loop-id"),
    "one_name_in_a_poll": check("loop-id"),
    "one_name_two_helpers_deep": check("loop-id"),
    "read_that_writes": check("effect-class"),
    "retry_that_never_happens": check("effect-class"),
    "name_with_other_arguments": check("loop-id"),
    # bad/hidden.py: what only running shows
    "clock_behind_getattr": Case("guard"),
    "chance_by_a_computed_name": Case("guard"),
    "order_of_what_was_answered_as_set": Case("divergence"),
    "file_behind_a_table": Case("guard"),
}

CLEAN: Final = (
    "sorted_set",
    "set_that_is_only_asked",
    "set_that_was_sorted",
    "set_made_of_a_set",
    "set_as_an_argument",
    "clock_in_a_step",
    "clock_as_an_inline_step",
    "chance_in_a_chooser",
    "helpers_of_the_context",
    "times_that_are_given",
    "seeded_generator",
    "name_derived_id",
    "local_state",
    "constants_of_the_module",
    "broad_except_round_a_step",
    "everything_is_raised_again",
    "broad_except_without_a_wait",
    "syscall_in_finally",
    "names_that_vary",
    "one_name_in_each_branch",
    "one_name_outside_the_loop",
    "gathered_syscalls",
    "a_lock_between_branches",
    "paths_without_a_disk",
    "names_like_those_of_the_world",
    "logs_quietly",
    "object_of_its_own",
    "counter_of_its_own",
    "scope_of_tasks",
    "allowed_with_a_reason",
)
