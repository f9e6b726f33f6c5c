"""The options of gpuyield measure beyond one machine: a round as a Job, its records merged, and a shard in a pod."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from gpuyield.cli.options import Common, Whole
from gpuyield.report.answer import Answer

if TYPE_CHECKING:
    from gpuyield.steps.measure_question import Question

_GROUP = Group("In a cluster", sort_key=50)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where several pods send one probe."""

    in_cluster: Annotated[bool, Parameter(group=_GROUP, negative="")] = False
    """Make the next probe of the search an Indexed Job: written, and given to the cluster with --apply only."""

    image: Annotated[str | None, Parameter(group=_GROUP)] = None
    """Image that holds this version of gpuyield."""

    namespace: Annotated[str, Parameter(group=_GROUP)] = "default"
    """Namespace of the Job."""

    claim: Annotated[str | None, Parameter(group=_GROUP)] = None
    """PersistentVolumeClaim for the records, to which all pods may write."""

    shards: Annotated[Whole, Parameter(group=_GROUP)] = 2
    """Pods that share the load; each has as many cores as --workers says."""

    start_in: Annotated[str, Parameter(group=_GROUP)] = "3m"
    """How long after now all of them begin, at one instant."""

    requests_map: Annotated[str | None, Parameter(group=_GROUP)] = None
    """ConfigMap with the file of --requests as requests.jsonl."""

    trace_map: Annotated[str | None, Parameter(group=_GROUP)] = None
    """ConfigMap with the file of --trace as trace.csv, or with its own ending."""

    token_secret: Annotated[str | None, Parameter(group=_GROUP)] = None
    """Secret with a bearer token as token."""

    merge: Annotated[Path | None, Parameter(group=_GROUP)] = None
    """Folder with the records of a round, to take as one probe."""

    shard: Annotated[Path | None, Parameter(group=_GROUP)] = None
    """Send one part of this round, as a pod does; JOB_COMPLETION_INDEX says which."""

    records: Annotated[Path, Parameter(group=_GROUP)] = Path("/records")
    """Folder in which the shards of a round meet and leave their records."""

    @property
    def modes(self) -> list[str]:
        """The options that ask for one step of a search by several senders."""
        named = {"--in-cluster": self.in_cluster, "--merge": self.merge is not None, "--shard": self.shard is not None}
        return [name for name, is_there in named.items() if is_there]


BY_ITSELF = Cluster()


def answer_beyond(
    cluster: Cluster, question: Question, common: Common, *, apply: bool, gate: bool, out: Path | None
) -> Answer | None:
    """The answer where several senders are meant; None where this process sends alone.

    Raises:
        DeclarationError: Options that do not go together, and mistakes of any of them.
    """
    from gpuyield.cli.progress import say
    from gpuyield.errors import DeclarationError

    if not cluster.modes:
        return None
    if gate and cluster.merge is None:
        raise DeclarationError(f"{cluster.modes[0]} decides nothing.", where="--gate", fix="Write it with --merge.")
    if cluster.shard is not None:
        from gpuyield.steps.measure_shard import run_shard

        return run_shard(question, cluster.shard, cluster.records, apply=apply, say=lambda line: say(common, line))
    from gpuyield.steps.measure_cluster import ClusterOptions, merge, next_round
    from gpuyield.steps.setting import read_declaration

    declared = read_declaration(common.file, required=question.service is not None)
    if cluster.merge is not None:
        return merge(
            question,
            declared,
            cluster.merge,
            file=common.file,
            gate=gate,
            ledger_root=common.ledger_root,
            out=out,
            say=lambda line: say(common, line),
        )
    options = ClusterOptions(
        image=cluster.image,
        namespace=cluster.namespace,
        claim=cluster.claim,
        shards=cluster.shards,
        start_in=cluster.start_in,
        requests_map=cluster.requests_map,
        trace_map=cluster.trace_map,
        token_secret=cluster.token_secret,
        out=out,
    )
    return next_round(question, declared, options, file=common.file, ledger_root=common.ledger_root, apply=apply)
