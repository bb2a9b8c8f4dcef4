"""The files of docs/deploy fit the project and each other: what they copy, name and wait for is
there. Tools that judge them by themselves run where they are installed; `make manifests` installs
those that come as packages."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from crawlproj.config import options
from settings import base

PROJECT = Path(__file__).parents[2]
DEPLOY = PROJECT / "docs" / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
GOODBYE_S = 45
"""What a worker takes at most to leave when Redis does not answer (docs/deploy.md)."""
OUR_VARIABLE = re.compile(r"\b(?:CRAWL|FRONTIER|POLITENESS|SEEN)_[A-Z_]+\b")


def instructions() -> list[tuple[str, str]]:
    """(word, rest) of the Dockerfile, continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", "").splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in joined if line.strip()]


def given(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return found


def objects() -> Iterator[dict[str, Any]]:
    """Everything that the manifests for Kubernetes describe."""
    for file in sorted(KUBERNETES.glob("*.yaml")):
        if file.name != "kustomization.yaml":
            yield from yaml.safe_load_all(file.read_text(encoding="utf-8"))


def pods() -> dict[str, dict[str, Any]]:
    """Name -> template of all that run as pods."""
    return {
        one["metadata"]["name"]: one["spec"]["template"]
        for one in objects()
        if "template" in one.get("spec", {})
    }


def values_of(node: Any, name: str) -> Iterator[Any]:
    """What stands under a name, anywhere in it."""
    if isinstance(node, dict):
        yield from (value for key, value in node.items() if key == name)
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from values_of(one, name)


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    copied = [shlex.split(rest) for rest in given("COPY") if not rest.startswith("--from")]
    for name in [source for *sources, _ in copied for source in sources]:
        assert (PROJECT / name).exists(), name
        assert f"!{name}" in ignored, f"{name} does not reach the build"


def test_the_image_does_not_run_as_root_and_is_told_itself_to_end() -> None:
    [user] = given("USER")
    assert int(user) > 0
    for word in ("ENTRYPOINT", "CMD"):
        [words] = map(json.loads, given(word))
        assert words
    assert compose()["x-crawl"]["init"], "or nobody reaps what a worker starts"


@pytest.mark.slow
def test_the_image_is_installed_as_its_dockerfile_says(tmp_path: Path) -> None:
    """The RUN lines of its first stage, in an environment of its own."""
    build = tmp_path / "build"
    build.mkdir()
    for name in ("requirements.lock", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, build)
    shutil.copytree(PROJECT / "crawlproj", build / "crawlproj")
    for line in given("RUN")[:2]:
        local = line.replace("/opt/venv", str(tmp_path / "venv")).replace("python ", "python3 ", 1)
        subprocess.run(["bash", "-ec", local], cwd=build, check=True)
    scrapy = tmp_path / "venv" / "bin" / "scrapy"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    shown = subprocess.check_output([scrapy, "plan", "--help"], text=True, cwd=tmp_path, env=env)
    assert "--pages" in shown


def test_settings_that_the_files_name_exist() -> None:
    known = {one.setting for one in options()}
    for file in (path for path in DEPLOY.rglob("*") if path.is_file()):
        named = set(OUR_VARIABLE.findall(file.read_text(encoding="utf-8")))
        assert named <= known, f"{file.name}: {named - known}"


def test_there_is_time_to_hand_in() -> None:
    least_s = base.DOWNLOAD_TIMEOUT + GOODBYE_S
    unit = (DEPLOY / "systemd" / "crawl@.service").read_text(encoding="utf-8")
    times = [re.findall(r"^TimeoutStopSec=(\d+)$", unit, flags=re.MULTILINE)[0]]
    times += [compose()["services"]["worker"]["stop_grace_period"].removesuffix("s")]
    times += [pods()["worker"]["spec"]["terminationGracePeriodSeconds"]]
    assert [int(one) >= least_s for one in times] == [True] * 3


def test_a_worker_reaches_its_own_memory_limit_before_that_of_its_pod() -> None:
    told = (KUBERNETES / "settings.env").read_text(encoding="utf-8")
    own_mb = int(re.findall(r"^CRAWL_MEMORY_LIMIT_MB=(\d+)$", told, flags=re.MULTILINE)[0])
    [worker] = pods()["worker"]["spec"]["containers"]
    assert own_mb < 1024 * int(worker["resources"]["limits"]["memory"].removesuffix("Gi"))


def test_what_manifests_refer_to_is_made_by_them_or_by_the_page() -> None:
    page = (PROJECT / "docs" / "deploy.md").read_text(encoding="utf-8")
    names = {(one["kind"], one["metadata"]["name"]) for one in objects()}
    everything = list(objects())
    for claim in values_of(everything, "claimName"):
        assert ("PersistentVolumeClaim", claim) in names
    for reference in values_of(everything, "secretKeyRef"):
        assert f"create secret generic {reference['name']}" in page
        assert f"--from-literal={reference['key']}=" in page
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8"))
    made = {one["name"] for one in kustomization["configMapGenerator"]}
    assert {one["name"] for one in values_of(everything, "configMapRef")} == made
    for file in kustomization["resources"]:
        assert (KUBERNETES / file).exists(), file


def test_selectors_find_the_pods_that_they_mean() -> None:
    labels = {template["metadata"]["labels"]["app"] for template in pods().values()}
    chosen = [*values_of(list(objects()), "matchLabels"), *values_of(list(objects()), "selector")]
    apps = {one["app"] for one in chosen if "app" in one}
    expressions = values_of(list(objects()), "matchExpressions")
    apps |= {value for found in expressions for one in found for value in one["values"]}
    assert apps == labels


@pytest.mark.parametrize("name", ["worker", "dashboard", "redis", "merge"])
def test_pods_may_do_no_more_than_they_must(name: str) -> None:
    spec = pods()[name]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])
def test_systemd_finds_nothing_wrong(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text(encoding="utf-8")
    (local := tmp_path / unit.name).write_text(
        text.replace("/opt/crawl/.venv/bin/scrapy", sys.executable), encoding="utf-8"
    )
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", local],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    # 0 is locked in, 10 is free: what it calls OK begins below 5, and a network service has 1.
    judged = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", local]
    subprocess.run(judged, check=True, capture_output=True)


@pytest.mark.manifests
@pytest.mark.parametrize(
    "command",
    [
        ("hadolint", DEPLOY / "Dockerfile"),
        ("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml"),
        *(
            ("kubernetes-validate", "--strict", file)
            for file in sorted(KUBERNETES.glob("*.yaml"))
            if file.name != "kustomization.yaml"
        ),
    ],
    ids=lambda command: f"{command[0]} {command[-1].name}",
)
def test_the_tools_of_others_find_nothing_wrong(command: tuple[str | Path, ...]) -> None:
    tool, *rest = command
    done = subprocess.run(
        [Path(sys.executable).parent / tool, *rest], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.manifests
@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl")
def test_kubectl_puts_the_manifests_together() -> None:
    built = subprocess.check_output(["kubectl", "kustomize", KUBERNETES], text=True)
    made = list(yaml.safe_load_all(built))
    [worker] = [
        one for one in made if one["metadata"]["name"] == "worker" and one["kind"] == "Deployment"
    ]
    [container] = worker["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/crawl:1"
    assert {one["metadata"].get("namespace", "crawl") for one in made} == {"crawl"}
