# The image for R: Xoe's image, R, and the package of frameworks/r. docs/guide/r.md says how it is built and started.
#   docker build -f deploy/docker/Dockerfile.r -t xoe-r .

# What deploy/docker/Dockerfile makes.
ARG BASE=xoe

FROM ${BASE}
LABEL org.opencontainers.image.title="Xoe for R" org.opencontainers.image.licenses="Apache-2.0"
USER root
# The compiler stays: R's packages from CRAN are sources.
RUN apt-get update && apt-get install -y --no-install-recommends r-base-core gcc libc6-dev make && apt-get clean \
  && rm -rf /var/lib/apt/lists/*
COPY frameworks/r /usr/local/src/xoe
RUN XOE_HOME=$(python -c 'import xoe; print(xoe.__path__[0])') R CMD INSTALL /usr/local/src/xoe && rm -r /usr/local/src/xoe
USER 65532
CMD ["R"]
