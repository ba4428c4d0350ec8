# The image of Everloop with what the agent's commands need in the end-to-end suites:
# curl, and Node.js and Chromium for tool servers and the browser tools.
ARG IMAGE
FROM ${IMAGE}
USER root
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends curl chromium \
 && rm -rf /var/lib/apt/lists/*
COPY node /usr/local/bin/node
USER everloop
