# The command `lacuna` for processors: docker build -t lacuna . && docker run --rm -v "$PWD:/work" lacuna train c.yaml
FROM debian:bookworm AS build
COPY . /lacuna
WORKDIR /lacuna
RUN tools/install-packages dpkg-dev file
RUN cmake --preset package -DLACUNA_CUDA=off && cmake --build --preset package
RUN cd build/package && cpack

FROM debian:bookworm-slim
COPY --from=build /lacuna/build/package/lacuna_*.deb /tmp/
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends /tmp/lacuna_*.deb && rm -rf /tmp/*.deb /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["lacuna"]
