# syntax=docker/dockerfile:1
# The locked packages are a layer of their own: a change of code does not fetch them anew.

FROM python:3.11-slim AS build
RUN pip install --no-cache-dir uv==0.13.8
ENV UV_PROJECT_ENVIRONMENT=/opt/skybridge UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never
WORKDIR /build
COPY pyproject.toml uv.lock ./
RUN --mount=type=cache,target=/root/.cache/uv uv sync --frozen --no-dev --no-install-project
COPY README.md LICENSE ./
COPY app ./app
RUN --mount=type=cache,target=/root/.cache/uv uv sync --frozen --no-dev --no-editable

FROM python:3.11-slim
RUN useradd --uid 10001 --create-home --home-dir /var/lib/skybridge skybridge
COPY --from=build /opt/skybridge /opt/skybridge
ENV PATH=/opt/skybridge/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
WORKDIR /var/lib/skybridge
VOLUME /var/lib/skybridge
# Events, and the admin listener (loopback unless the configuration gives it a token).
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
ENTRYPOINT ["skybridge"]
CMD ["serve", "--config", "/etc/skybridge/skybridge.yaml"]
