package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// scope names whose instruments they are.
const scope = "github.com/convoke-hpc/convoke"

// Metrics keeps the values of instruments in memory, to be read on demand. A program that exports its metrics gives its parts
// another meter.
type Metrics struct {
	reader   *sdk.ManualReader
	provider *sdk.MeterProvider
}

// NewMetrics makes metrics of which nothing has been counted.
func NewMetrics() *Metrics {
	reader := sdk.NewManualReader()
	return &Metrics{reader: reader, provider: sdk.NewMeterProvider(sdk.WithReader(reader))}
}

// Meter makes instruments.
func (m *Metrics) Meter() metric.Meter { return m.provider.Meter(scope) }

// Reading is the value of one instrument for one set of attributes.
type Reading struct {
	Name string `json:"name"`
	// Attributes are KEY=VALUE, sorted, with commas between them.
	Attributes string `json:"attributes,omitempty"`
	// Value is a counter's sum or a gauge's last value; for a histogram it is the sum of Count recordings.
	Value float64 `json:"value"`
	Count uint64  `json:"count,omitempty"`
}

// Read reads every instrument, sorted by name and attributes.
func (m *Metrics) Read(ctx context.Context) ([]Reading, error) {
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(ctx, &all); err != nil {
		return nil, fmt.Errorf("reading metrics, %w", err)
	}
	var out []Reading
	for _, s := range all.ScopeMetrics {
		for _, metric := range s.Metrics {
			out = append(out, readings(metric)...)
		}
	}
	slices.SortFunc(out, func(a, b Reading) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Attributes, b.Attributes))
	})
	return out, nil
}

func readings(m metricdata.Metrics) []Reading {
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		return points(m.Name, data.DataPoints)
	case metricdata.Sum[float64]:
		return points(m.Name, data.DataPoints)
	case metricdata.Gauge[int64]:
		return points(m.Name, data.DataPoints)
	case metricdata.Gauge[float64]:
		return points(m.Name, data.DataPoints)
	case metricdata.Histogram[float64]:
		var out []Reading
		for _, p := range data.DataPoints {
			out = append(out, Reading{Name: m.Name, Attributes: describe(p.Attributes), Value: p.Sum, Count: p.Count})
		}
		return out
	}
	return nil
}

func points[N int64 | float64](name string, points []metricdata.DataPoint[N]) []Reading {
	out := make([]Reading, 0, len(points))
	for _, p := range points {
		out = append(out, Reading{Name: name, Attributes: describe(p.Attributes), Value: float64(p.Value)})
	}
	return out
}

func describe(set attribute.Set) string {
	var parts []string
	for _, kv := range set.ToSlice() {
		parts = append(parts, string(kv.Key)+"="+kv.Value.String())
	}
	return strings.Join(parts, ",")
}
