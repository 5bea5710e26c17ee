# One image for all functions: FUNCTION_TARGET says which of them a service runs.
#   docker build --build-arg VERSION=$(git rev-parse --short HEAD) -t convoke .

FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /functions ./functions

FROM gcr.io/distroless/static-debian12:nonroot
ARG VERSION=unknown
LABEL org.opencontainers.image.title="convoke" \
      org.opencontainers.image.description="The functions of a team's own training-cluster service" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /functions /functions
USER nonroot
EXPOSE 8080
ENTRYPOINT ["/functions"]
