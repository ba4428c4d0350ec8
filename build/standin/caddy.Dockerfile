# Stands in for the official image of Caddy where there is no registry.
ARG BASE=debian:12.12-slim
FROM ${BASE}
COPY caddy /usr/bin/caddy
ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data
CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]
