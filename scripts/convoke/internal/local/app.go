package local

import (
	"context"
	"fmt"
	"net/http"

	"github.com/convoke-hpc/convoke/functions/wiring"
	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/embedded"
	"github.com/convoke-hpc/convoke/shared/store/firestore"
)

func openStore(ctx context.Context, o Options) (store.Store, error) {
	if o.FirestoreEmulator == "" {
		st, err := embedded.Open(o.DataDir, embedded.Options{})
		if err != nil {
			return nil, err
		}
		return st, nil
	}
	if err := answers(ctx, o.FirestoreEmulator); err != nil {
		return nil, fmt.Errorf("%s is %s, and nothing answers there (unset it to use the store of this process), %w", EnvFirestore, o.FirestoreEmulator, err)
	}
	var st *firestore.Store
	err := withEnv(EnvFirestore, o.FirestoreEmulator, func() (err error) {
		st, err = firestore.Open(ctx, o.Project, firestore.Options{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// openApp puts the functions together, on the parts of this process.
func (l *Local) openApp(ctx context.Context) (*wiring.App, error) {
	return wiring.New(ctx, wiring.Config{
		Project: l.options.Project, Location: l.options.Location,
		Store: l.store, PubSub: l.bus.client,
		ComputeEndpoint: "http://gcp.simulated", HTTPClient: &http.Client{Transport: l.world.cloud.Transport()},
		Policy: &l.options.Pace.Policy, Timing: l.options.Pace.Steward,
		Log: l.options.Logger, Meter: l.metrics.Meter(),
	})
}
