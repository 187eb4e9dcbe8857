# SPDX-License-Identifier: MIT
# Python: the package lockshm.
tests_of_bindings += \
	%D%/tests/hosts.sh \
	%D%/tests/install.sh \
	%D%/tests/servers.sh \
	%D%/tests/unit.sh \
	$(end)

nobase_dist_doc_DATA += \
	%D%/MIGRATING.md \
	%D%/README.md \
	%D%/bench/results.md \
	%D%/examples/aio_server.py \
	%D%/examples/dogpile_mutex.py \
	%D%/examples/gunicorn_once.py \
	%D%/examples/gunicorn_scheduler.py \
	%D%/examples/huey_lock.py \
	%D%/examples/single_flight.py \
	%D%/examples/uwsgi_scheduler.py \
	$(end)

EXTRA_DIST += \
	%D%/MANIFEST.in \
	%D%/bench/kinds.py \
	%D%/bench/pair.c \
	%D%/bench/run.py \
	%D%/bench/scenarios.py \
	%D%/build.sh \
	%D%/pyproject.toml \
	%D%/setup.py \
	%D%/src/_lockshm/acquire.c \
	%D%/src/_lockshm/acquire_many.c \
	%D%/src/_lockshm/args.c \
	%D%/src/_lockshm/create.c \
	%D%/src/_lockshm/errors.c \
	%D%/src/_lockshm/hold.c \
	%D%/src/_lockshm/lock.c \
	%D%/src/_lockshm/lockshm_py.h \
	%D%/src/_lockshm/loop.c \
	%D%/src/_lockshm/module.c \
	%D%/src/_lockshm/node.c \
	%D%/src/_lockshm/release.c \
	%D%/src/_lockshm/segment_type.c \
	%D%/src/lockshm/__init__.py \
	%D%/src/lockshm/_aio.py \
	%D%/src/lockshm/_lockshm.pyi \
	%D%/src/lockshm/_recipes.py \
	%D%/src/lockshm/_report.py \
	%D%/src/lockshm/_seat.py \
	%D%/src/lockshm/_watch.py \
	%D%/src/lockshm/compat/__init__.py \
	%D%/src/lockshm/compat/filelock.py \
	%D%/src/lockshm/compat/redis.py \
	%D%/src/lockshm/py.typed \
	%D%/src/lockshm/testing.py \
	%D%/tests/agent.py \
	%D%/tests/common.sh \
	%D%/tests/conftest.py \
	%D%/tests/hosts/conftest.py \
	%D%/tests/hosts/hosts_app.py \
	%D%/tests/hosts/test_gunicorn.py \
	%D%/tests/hosts/test_hosts.py \
	%D%/tests/servers/aio_load.py \
	%D%/tests/servers/app.py \
	%D%/tests/servers/conftest.py \
	%D%/tests/servers/dogpile_app.py \
	%D%/tests/servers/flight_app.py \
	%D%/tests/servers/gate.py \
	%D%/tests/servers/huey_app.py \
	%D%/tests/servers/once_conf.py \
	%D%/tests/servers/originals_filelock.py \
	%D%/tests/servers/originals_redis.py \
	%D%/tests/servers/support.py \
	%D%/tests/servers/test_aio_server.py \
	%D%/tests/servers/test_dogpile.py \
	%D%/tests/servers/test_gunicorn.py \
	%D%/tests/servers/test_gunicorn_recipes.py \
	%D%/tests/servers/test_huey.py \
	%D%/tests/servers/test_migrating.py \
	%D%/tests/servers/test_originals.py \
	%D%/tests/servers/test_uwsgi.py \
	%D%/tests/test_asyncio.py \
	%D%/tests/test_compat_filelock.py \
	%D%/tests/test_compat_redis.py \
	%D%/tests/test_errors.py \
	%D%/tests/test_fork.py \
	%D%/tests/test_gc.py \
	%D%/tests/test_leaks.py \
	%D%/tests/test_lock.py \
	%D%/tests/test_lost.py \
	%D%/tests/test_many.py \
	%D%/tests/test_readme.py \
	%D%/tests/test_reentry.py \
	%D%/tests/test_strings.py \
	%D%/tests/test_recipes.py \
	%D%/tests/test_testing.py \
	%D%/tests/test_threads.py \
	$(end)
