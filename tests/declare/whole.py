"""A `gpuyield.yaml` that uses every key, as the contract shows it."""

from __future__ import annotations

WHOLE = """\
apiVersion: gpuyield.dev/v1alpha1
kind: Cluster
metadata: {name: prod-eu}
currency: EUR
reporting_zone: Europe/Berlin
rules: {gap_limit: 5m, activity_threshold: 0.05, idle_after: 30m}
sources:
  prometheus: {url: "http://127.0.0.1:9090"}
  opencost: {service: "opencost/opencost:9003", token_file: /run/token, ca_file: ca.crt, headers_file: headers}
  kubernetes: {context: prod-eu}
  outcomes: [{format: jsonl, path: "outcomes/*.jsonl"}]
teams: {label: team, namespaces: {evals: evals, norway: NO}}
milestones: {rc-2.3: 2026-12-18T12:00:00Z, freeze: 2026-12-24}
inventory:
  - {flavor: h100, gpus: 64, nodes: 8, domain: node}
prices:
  - {flavor: h100, gpu_hour: 2.49, basis: contracted, from: 2026-06-01, to: null}
  - {flavor: h100, gpu_hour: "2.99", from: 2026-01-01, to: 2026-06-01}
  - {flavor: a100, gpu_hour: 1.10, currency: USD}
rates: [{pair: USD/EUR, rate: 0.86, at: 2026-11-01, source: treasury}]
bill: [{format: focus, path: "bill/*.csv"}]
sharing: {idle: by_allocated, unallocated: nobody, rate: gpu}
purchase:
  - {flavor: h100, kind: reserved_1y, price: 1.60, min: 8, lead_time: 6w}
demand: [{service: support-chat, growth_per_week: 0.015, owner: support, source: plan-2027}]
limits: {evals: {max_weight: 5, max_gpus: 32}}
services:
  - name: support-chat
    selector: {namespace: support, labels: {app: chat, version: 2}}
    endpoint: "http://127.0.0.1:8000/v1"
    model: llama-70b
    team: support
    hours: always
    objectives:
      - {name: ttft, metric: ttft, at_most: 800ms, share: 0.95, window: 28d}
      - {name: tpot, metric: tpot, at_most: 12.5ms, share: 0.95}
      - {name: resolved, check: resolved, at_least: 0.7, share: 0.90}
      - {name: answered, metric: error, share: 0.999}
      - {displayName: first, metric: e2e, op: lt, value: 2s, target: 0.9}
      - {name: toxic, check: toxicity, op: lte, value: 0.1, target: 0.99}
    outcome: {unit: request, require: [resolved], policy: 2 of 3}
    redundancy: {spare_replicas: 1}
  - name: batch-api
    selector: {labels: {app: api}}
    hours:
      - {days: mon-fri, from: "08:00", to: "20:00"}
      - {days: "sat", from: 22:00, to: 02:00, zone: UTC}
batch:
  - name: nightly-eval
    selector: {namespace: evals, queue: batch, labels: {job: nightly}}
    team: evals
    gpus: 2
    flavors: {h100: {duration: 2h}, a100: {duration: 3h30m}}
    deadline: 06:00 Europe/Berlin
    due: within 8h
    weight: 3
    preemptible: 3m
    outcome: {unit: item, require: [schema_valid], min_units: 0.99}
  - name: release-candidate
    selector: {queue: rc}
    duration: 12h
    deadline: milestone:rc-2.3
    preemptible: no
"""
