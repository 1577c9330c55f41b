# One image for both halves: `gpu-dra kubelet-plugin` and `gpu-dra controller`. Built by docker, podman or buildah, the same.
#
#   docker build -t gpu-dra .
#   hack/image/build.sh            where no registry is at hand: both bases are made of Debian packages
#
# Both bases need the same minor version of Python (wheels with C code are for one), the second needs nothing else: no shell.
ARG BUILD_BASE=docker.io/library/python:3.13-slim-bookworm
ARG BASE=docker.io/library/python:3.13-slim-bookworm

FROM ${BUILD_BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements.txt requirements-build.txt ./
RUN python3 -m pip install --quiet --require-hashes --only-binary :all: --target /build-tools --requirement requirements-build.txt \
 && python3 -m pip install --quiet --require-hashes --only-binary :all: --no-compile --target /opt/gpu-dra --requirement requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY driver driver
# Bytecode that is checked against no time stamp: the files are the same whenever the image is built, and never looked at again.
RUN PYTHONPATH=/build-tools python3 -m pip install --quiet --no-deps --no-build-isolation --no-compile --upgrade --target /opt/gpu-dra . \
 && find /opt/gpu-dra -depth -type d \( -name tests -o -name __pycache__ \) -exec rm -rf {} + \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/gpu-dra

FROM ${BASE}
LABEL org.opencontainers.image.title="gpu-dra" \
      org.opencontainers.image.description="Kubernetes DRA driver for NVIDIA GPUs: node plugin and controller" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/gpu-dra /opt/gpu-dra
ENV PATH=/opt/gpu-dra/bin:/usr/local/bin:/usr/bin:/bin PYTHONPATH=/opt/gpu-dra PYTHONDONTWRITEBYTECODE=1
# The controller and the commands need no rights. The kubelet plugin must be root (sockets of the kubelet, device nodes): its
# DaemonSet says so.
USER 65532:65532
ENTRYPOINT ["gpu-dra"]
CMD ["--help"]
