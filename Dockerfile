# Two stages: packages are built in the first, the second has no compiler and no package cache. No network at run time.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS packages
WORKDIR /build
RUN python -m venv /opt/hermitage
ENV PATH=/opt/hermitage/bin:$PATH
# torch first: it is the largest layer and changes least.
RUN pip install --no-cache-dir torch==2.13.0
COPY requirements.txt ./
RUN pip install --no-cache-dir -r requirements.txt
COPY pyproject.toml README.md ./
COPY synth ./synth
RUN pip install --no-cache-dir --no-deps .

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
RUN mkdir /data && chown 10001:10001 /data
VOLUME /data
USER 10001
EXPOSE 8501
# Any unknown path answers 200 with the index page, so the body has to be matched.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import sys, urllib.request; sys.exit(urllib.request.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4).read() != b'ok')"]
ENTRYPOINT ["python", "-m", "streamlit", "run", "app.py"]
