# Stands in for the official images of nats (alpine) and versitygw where there is
# no registry: one program, and the busybox that those images have.
ARG BASE=debian:12.12-slim
FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends busybox \
 && rm -rf /var/lib/apt/lists/* \
 && ln -s /bin/busybox /usr/local/bin/wget
COPY program /usr/local/bin/program
ENTRYPOINT ["program"]
