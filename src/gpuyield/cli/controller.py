"""gpuyield controller: enforcement through Kueue."""

from __future__ import annotations

from cyclopts import App

from gpuyield.cli import controller_deploy, controller_run
from gpuyield.cli.help import Columns

app = App(name="controller", help_formatter=Columns("gpuyield controller manifests --out gpuyield-controller.yaml"))

controller_run.add_to(app)
controller_deploy.add_to(app)
