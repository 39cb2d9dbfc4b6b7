# Hermitage with the client programs of PostgreSQL 15, which backups and restoring need: see compose.yaml.
ARG IMAGE=hermitage
FROM ${IMAGE}
USER 0
# Debian keeps only the latest fix of a version, so no other one can be asked for.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends postgresql-client-15 \
    && rm -rf /var/lib/apt/lists/*
USER 10001
