# syntax=docker/dockerfile:1
#
#   docker build -t skybridge .                             the service: gateway and worker
#   docker build -t skybridge-pipeline --target pipeline .  with Spark, a JRE and the jars
#
# The locked packages are a layer of their own: a change of code does not fetch them again. What runs is
# Python itself as process 1: it handles SIGTERM and reaps what it starts, so no init stands before it.

ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS uv
RUN pip install --no-cache-dir uv==0.13.8
ENV UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=/opt/skybridge
WORKDIR /build
COPY pyproject.toml uv.lock ./

# The page for operators. Its types come from the API's description, which is all it needs of the service.
FROM node:22-bookworm-slim AS console
WORKDIR /build/app/console/web
COPY app/console/web/package.json app/console/web/package-lock.json ./
RUN --mount=type=cache,target=/root/.npm \
    npm ci --no-audit --no-fund
COPY openapi /build/openapi
COPY app/console/web ./
RUN npm run build

# Without pygments: rich colours source code with it, which no command prints. uv keeps the wheel of a project until its
# pyproject.toml changes, so the project itself is built again each time.
FROM uv AS build
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --frozen --no-dev --all-extras --no-extra pipeline --no-install-package pygments --no-install-project
COPY README.md LICENSE ./
COPY app ./app
COPY --from=console /build/app/console/web/dist ./app/console/web/dist
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --frozen --no-dev --all-extras --no-extra pipeline --no-install-package pygments --no-editable \
        --reinstall-package skybridge-cloudevents
COPY docker/slim.py ./
RUN /opt/skybridge/bin/python slim.py /opt/skybridge

FROM uv AS build-pipeline
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --frozen --no-dev --all-extras --no-install-project
COPY README.md LICENSE ./
COPY app ./app
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --frozen --no-dev --all-extras --no-editable --reinstall-package skybridge-cloudevents
ENV SKYBRIDGE_JARS=/opt/skybridge-jars
RUN /opt/skybridge/bin/python -c "from app.cli.pipeline.group import bring_jars; from app.spark.settings import SparkEngine; bring_jars(SparkEngine(with_postgresql=True, with_s3=True), quiet=True)"

# What both images share. The root file system may be read-only: what is written goes to /var/lib/skybridge
# (log and store) and, by Spark, to /tmp.
FROM python:${PYTHON} AS base
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="skybridge" \
      org.opencontainers.image.description="The CloudEvents bridge: HTTP in, a durable log, webhooks out" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN useradd --uid 10001 --create-home --home-dir /var/lib/skybridge skybridge
# Inside a container loopback reaches nobody: the events listener binds all addresses here, whatever the
# configuration says. So the configuration must say who may send: server.events.access, producers or open. The
# admin listener stays where the configuration has it: off loopback it needs a token.
ENV PATH=/opt/skybridge/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SKYBRIDGE_SERVER__EVENTS__HOST=0.0.0.0
USER 10001:10001
WORKDIR /var/lib/skybridge
VOLUME /var/lib/skybridge
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
ENTRYPOINT ["skybridge"]
CMD ["serve", "--config", "/etc/skybridge/skybridge.yaml"]

FROM base AS pipeline
USER 0
# The release of the base image pins the JRE; its point releases are security fixes.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build-pipeline /opt/skybridge-jars /opt/skybridge-jars
COPY --from=build-pipeline /opt/skybridge /opt/skybridge
ENV SKYBRIDGE_JARS=/opt/skybridge-jars
# Java finds Spark's parsed classes in one file, so a short command needs a third less CPU to start. With other jars
# Java ignores the file. Java writes it after Python has ended, and its first bytes last.
RUN SPARK_SUBMIT_OPTS="-Xlog:disable -Xlog:all=error:stderr -XX:ArchiveClassesAtExit=/opt/skybridge-jars/spark.jsa" python -c "from app.spark.session import open_session; from app.spark.settings import SparkEngine; open_session(SparkEngine(), None, app_name='classes', brief=True).range(3).count()" \
    && timeout 300 sh -c "until head -c 4 /opt/skybridge-jars/spark.jsa | tr -d '\\0' | grep -q .; do sleep 1; done"
ENV SPARK_SUBMIT_OPTS="-Xlog:disable -Xlog:all=error:stderr -XX:SharedArchiveFile=/opt/skybridge-jars/spark.jsa"
USER 10001:10001
ENTRYPOINT ["bash", "/opt/skybridge/lib/python3.11/site-packages/app/spark/entrypoint.sh"]
CMD ["pipeline", "--help"]

FROM base AS service
COPY --from=build /opt/skybridge /opt/skybridge
