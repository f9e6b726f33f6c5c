"""The form of `gpuyield.yaml`: its keys, level by level, as pydantic models. The JSON Schema comes from them.

Models stay in this room; `build` turns a filled form into the values of `model.declaration`.
"""

from __future__ import annotations

from typing import Any  # values of a decoder

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gpuyield.declare.fields import (
    Amount,
    ApiVersionWord,
    BasisWord,
    BillFormat,
    Clock,
    Count,
    Currency,
    CurrencyPair,
    Days,
    DeadlineText,
    GpuCount,
    Growth,
    KindWord,
    LeadTimeMs,
    LengthMs,
    Limit,
    MetricWord,
    Number,
    OpWord,
    OutcomeFormat,
    Policy,
    PositiveNumber,
    PurchaseWord,
    Rate,
    RateWord,
    Ratio,
    RestartMs,
    ServiceAddress,
    SharingWord,
    Text,
    TimeMs,
    UnitWord,
    Url,
    ZoneName,
    mistake,
)


class Form(BaseModel):
    """A mapping with known keys only; a key without a value is as good as absent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, given: Any) -> Any:
        known = {field.alias or name for name, field in cls.model_fields.items()}
        if not isinstance(given, dict):
            return given
        return {key: value for key, value in given.items() if value is not None or key not in known}


class MetadataForm(Form):
    """Who this is."""

    name: Text = Field(default="cluster", description="Name of the cluster in every document.")


class RulesForm(Form):
    """Constants of the accounting."""

    gap_limit: LengthMs | None = Field(default=None, description="How long a sample holds at most, such as 5m.")
    activity_threshold: Ratio | None = Field(default=None, description="A device below it does nothing (0.05).")
    idle_after: LengthMs | None = Field(default=None, description="Below the threshold for so long is idle_held.")


class EndpointForm(Form):
    """An HTTP source: `url` or `service`, with files that hold secrets."""

    url: Url | None = Field(default=None, description="Base address, such as http://127.0.0.1:9090.")
    service: ServiceAddress | None = Field(
        default=None, description="namespace/name:port, read through the API server's proxy."
    )
    token_file: Text | None = Field(default=None, description="File with a bearer token.")
    ca_file: Text | None = Field(default=None, description="File with the certificate authority to trust.")
    headers_file: Text | None = Field(default=None, description="File with `Name: value` lines sent as headers.")


class KubernetesForm(Form):
    """The cluster to read."""

    context: Text | None = Field(default=None, description="kubeconfig context; absent: current, or in-cluster.")


class OutcomesForm(Form):
    """Files with outcomes or verdicts."""

    format: OutcomeFormat
    path: Text = Field(description="May hold wildcards; relative to this file.")


class SourcesForm(Form):
    """Where evidence comes from."""

    prometheus: EndpointForm = Field(description="Prometheus, VictoriaMetrics, Thanos or Mimir.")
    opencost: EndpointForm | None = None
    kubernetes: KubernetesForm | None = None
    outcomes: list[OutcomesForm] = Field(default_factory=list)


class TeamsForm(Form):
    """Who a pod belongs to."""

    label: Text | None = Field(default=None, description="Pod or namespace label that names the team.")
    namespaces: dict[str, Text] = Field(default_factory=dict, description="Team by namespace.")


class InventoryForm(Form):
    """GPUs that no node reports."""

    flavor: Text
    gpus: GpuCount
    nodes: GpuCount | None = None
    domain: Text = "node"


class PriceForm(Form):
    """A price of one GPU-hour for a time."""

    flavor: Text
    gpu_hour: Amount = Field(description="Price of one GPU for one hour.")
    currency: Currency | None = Field(default=None, description="Default: the cluster's.")
    basis: BasisWord | None = Field(default=None, description="list when absent.")
    from_: TimeMs | None = Field(default=None, alias="from", description="Holds from then on.")
    to: TimeMs | None = Field(default=None, description="Until then, exclusive; null: still.")


class RateForm(Form):
    """An exchange rate with its date."""

    pair: CurrencyPair = Field(description="USD/EUR: how many EUR one USD is worth.")
    rate: Rate
    at: TimeMs
    source: Text | None = None


class BillForm(Form):
    """Files of a provider's bill."""

    format: BillFormat
    path: Text = Field(description="May hold wildcards; relative to this file.")


class SharingForm(Form):
    """Who bears cost that nobody caused."""

    idle: SharingWord | None = None
    unallocated: SharingWord | None = None
    rate: RateWord | None = Field(default=None, description="node: node total over its GPU-hours; or gpu.")


class PurchaseForm(Form):
    """A way to get more GPUs."""

    flavor: Text
    kind: PurchaseWord
    price: Amount = Field(description="Price of one GPU for one hour.")
    currency: Currency | None = Field(default=None, description="Default: the cluster's.")
    min: GpuCount = 1
    lead_time: LeadTimeMs | None = Field(default=None, description="From the order until it serves, such as 6w.")


class DemandForm(Form):
    """Expected growth of a service."""

    service: Text
    growth_per_week: Growth = Field(description="0.015 is 1.5 % a week.")
    owner: Text | None = None
    source: Text | None = None


class LimitForm(Form):
    """What annotations of a namespace may claim."""

    max_weight: PositiveNumber | None = None
    max_gpus: Count | None = None


class SelectorForm(Form):
    """Which pods are meant; at least one key."""

    namespace: Text | None = None
    labels: dict[str, Text] = Field(default_factory=dict)
    queue: Text | None = Field(default=None, description="Kueue LocalQueue.")


class ObjectiveForm(Form):
    """A share of attempts that must meet a limit; OpenSLO's op, value and target are accepted."""

    name: Text | None = Field(default=None, description="Key in every document; default the metric or check.")
    display_name: Text | None = Field(default=None, alias="displayName", description="OpenSLO's name.")
    metric: MetricWord | None = None
    check: Text | None = Field(default=None, description="Name of a check whose verdicts count.")
    at_most: Limit | None = Field(default=None, description="Limit of a metric with its unit (800ms), or a score.")
    at_least: Number | None = Field(default=None, description="Least score of a check.")
    op: OpWord | None = Field(default=None, description="OpenSLO's lte, lt, gte, gt.")
    value: Limit | None = Field(default=None, description="OpenSLO's limit; a metric's with its unit.")
    share: Ratio | None = Field(default=None, description="Requests that meet it / requests attempted.")
    target: Ratio | None = Field(default=None, description="OpenSLO's share.")
    window: LengthMs | None = Field(default=None, description="Over which the share must hold, such as 28d.")


class OutcomeForm(Form):
    """When an outcome counts as verified."""

    unit: UnitWord | None = None
    require: list[Text] = Field(default_factory=list, description="Checks that must pass.")
    policy: Policy = "all"
    min_units: Ratio | None = Field(default=None, description="Share of a job's units that must pass.")


class HoursForm(Form):
    """Part of a weekly calendar."""

    days: Days = Field(description="mon-fri, or mon, wed, sat.")
    from_: Clock = Field(alias="from")
    to: Clock = Field(description="24:00 is the day's end; earlier than from: the next day.")
    zone: ZoneName | None = Field(default=None, description="Default: reporting_zone.")


class RedundancyForm(Form):
    """What may fail without harm."""

    spare_replicas: Count = 0


class ServiceForm(Form):
    """A serving workload and its objectives."""

    name: Text
    selector: SelectorForm
    endpoint: Url | None = Field(default=None, description="Ends in /v1 for OpenAI-compatible servers.")
    model: Text | None = None
    team: Text | None = None
    hours: list[HoursForm] | None = Field(default=None, description="always, or a weekly calendar.")
    objectives: list[ObjectiveForm] = Field(default_factory=list)
    outcome: OutcomeForm | None = None
    redundancy: RedundancyForm | None = None

    @field_validator("hours", mode="before")
    @classmethod
    def _always(cls, value: Any) -> Any:
        if value == "always":
            return None
        if not isinstance(value, list):
            raise mistake(
                "hours is neither always nor a weekly calendar.", 'Write [{days: mon-fri, from: "08:00", to: "20:00"}].'
            )
        return value


class FlavorRunForm(Form):
    """How a job runs on one flavor."""

    duration: LengthMs


class BatchForm(Form):
    """A recurring batch job."""

    name: Text
    selector: SelectorForm
    team: Text | None = None
    gpus: GpuCount | None = None
    duration: LengthMs | None = Field(default=None, description="Run time on any flavor.")
    flavors: dict[str, FlavorRunForm] = Field(default_factory=dict, description="Run time by flavor.")
    deadline: DeadlineText | None = Field(default=None, description="Binds.")
    due: DeadlineText | None = Field(default=None, description="Lateness only costs weight.")
    weight: PositiveNumber | None = None
    preemptible: RestartMs = Field(default=None, description="Cost of a restart; absent: may not be paused.")
    outcome: OutcomeForm | None = None


class ClusterForm(Form):
    """One cluster: what teams promise, and where evidence comes from."""

    api_version: ApiVersionWord | None = Field(default=None, alias="apiVersion")
    kind: KindWord | None = None
    metadata: MetadataForm = Field(default_factory=MetadataForm)
    currency: Currency | None = None
    reporting_zone: ZoneName = Field(default="UTC", description="Of calendar months, 08:00 and pure dates.")
    rules: RulesForm = Field(default_factory=RulesForm)
    sources: SourcesForm
    teams: TeamsForm = Field(default_factory=TeamsForm)
    milestones: dict[str, TimeMs] = Field(default_factory=dict, description="Dates that many jobs share.")
    inventory: list[InventoryForm] = Field(default_factory=list)
    prices: list[PriceForm] = Field(default_factory=list)
    rates: list[RateForm] = Field(default_factory=list)
    bill: list[BillForm] = Field(default_factory=list)
    sharing: SharingForm = Field(default_factory=SharingForm)
    purchase: list[PurchaseForm] = Field(default_factory=list)
    demand: list[DemandForm] = Field(default_factory=list)
    limits: dict[str, LimitForm] = Field(default_factory=dict)
    services: list[ServiceForm] = Field(default_factory=list)
    batch: list[BatchForm] = Field(default_factory=list)
