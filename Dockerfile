# The command `lacuna`, for processors with AVX2: docker build -t lacuna . && docker run --rm -v "$PWD:/work" lacuna train c.yaml
FROM debian:bookworm AS build
COPY . /lacuna
WORKDIR /lacuna
RUN tools/install-packages \
 && cmake --preset portable -DLACUNA_ARCH=x86-64-v3 -DLACUNA_TESTS=OFF -DLACUNA_BENCH=OFF \
 && cmake --build --preset portable \
 && cmake --install build/portable --prefix /install

FROM debian:bookworm-slim
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends libdnnl2 libfmt9 libyaml-cpp0.7 libutf8proc2 libpcre2-8-0 libjpeg62-turbo libpng16-16 libwebp7 libwebpdemux2 libgomp1 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /install /usr/local
WORKDIR /work
ENTRYPOINT ["lacuna"]
