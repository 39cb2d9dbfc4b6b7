# Two images from this file, both for linux/amd64, the platform of the locks:
#   docker build -t hermitage .                                  torch for the processor
#   docker build --build-arg TORCH=cuda -t hermitage-cuda .      torch with CUDA, for `docker run --gpus all`
# Two stages: packages are built in the first, the second has no compiler and no package cache. No network at run time.
# The digest is that of the index of python:3.11.16-slim-bookworm, as Docker Hub gave it in September and October 2026.
ARG PYTHON_IMAGE=python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${PYTHON_IMAGE} AS packages
ARG TORCH=cpu
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
WORKDIR /build
RUN python -m venv /opt/hermitage
ENV PATH=/opt/hermitage/bin:$PATH
# torch first: it is the largest layer and changes least. Its build without CUDA has an index of its own.
COPY locks ./locks
RUN if [ "$TORCH" = cpu ]; then export PIP_EXTRA_INDEX_URL="$TORCH_INDEX"; fi \
    && pip install --no-cache-dir --no-deps --require-hashes --only-binary :all: -r "locks/$TORCH.txt"
# What comes as source is built with the setuptools of the lock: a build in isolation would fetch one without a hash.
RUN pip install --no-cache-dir --no-deps --require-hashes --no-build-isolation --use-pep517 -r locks/common.txt
COPY pyproject.toml setup.py README.md LICENSE app.py ./
COPY pages ./pages
COPY .streamlit ./.streamlit
COPY synth ./synth
RUN pip install --no-cache-dir --no-deps --no-build-isolation . && pip check

FROM ${PYTHON_IMAGE}
COPY --from=packages /opt/hermitage /opt/hermitage
WORKDIR /app
COPY app.py ./
COPY pages ./pages
COPY .streamlit ./.streamlit
ENV PATH=/opt/hermitage/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HERMITAGE_HOME=/data \
    STREAMLIT_BROWSER_GATHER_USAGE_STATS=false \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 \
    STREAMLIT_SERVER_HEADLESS=true
# A name for the user, so that every engine calls whoever types commands the same.
RUN useradd --no-log-init --uid 10001 --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin hermitage \
    && mkdir /data && chown 10001:10001 /data
VOLUME /data
USER 10001
EXPOSE 8501
# Any unknown path answers 200 with the index page, so the body has to be matched.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import sys, urllib.request; sys.exit(urllib.request.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4).read() != b'ok')"]
ENTRYPOINT ["python", "-m", "streamlit", "run", "app.py"]
