package gce

import (
	"context"
	"fmt"

	secretmanager "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// ensureSecret makes a secret and gives it one version of random bytes when it has none that is enabled. A crash, or an
// answer that is lost, between the two calls is repaired by the next one, which finds the secret and no version.
func (c *Client) ensureSecret(ctx context.Context, i cluster.EnsureSecret) (result, error) {
	if i.Bytes <= 0 {
		return result{}, &cluster.Problem{Class: cluster.Configuration, Message: fmt.Sprintf("a secret of %d bytes is none", i.Bytes)}
	}
	secret, err := c.secret(ctx, i.Ref.Name)
	if missing(err) {
		secret, err = c.createSecret(ctx, i)
	}
	if err != nil {
		return result{}, err
	}
	if !bears(secret.GetLabels(), i.Labels) {
		return result{}, foreign("secret", whose("", secret.GetLabels()))
	}
	for try := 1; ; try++ {
		has, err := c.hasVersion(ctx, i.Ref.Name)
		if err != nil {
			return result{}, err
		}
		if has {
			return result{found: cluster.Found{Link: c.path("secrets", i.Ref.Name), Status: "ENABLED"}}, nil
		}
		// Adding a version twice adds two, and no request id prevents it: so nothing is repeated without a look whether the
		// call whose answer was lost has added one.
		err = c.addVersion(ctx, i)
		if err != nil && (try == c.limits.Attempts || !passing(err) || !c.pause(ctx, try, err)) {
			return result{}, err
		}
	}
}

func (c *Client) secret(ctx context.Context, name string) (*secretmanagerpb.Secret, error) {
	return read(ctx, c, c.secrets.GetSecret, &secretmanagerpb.GetSecretRequest{Name: c.path("secrets", name)})
}

func (c *Client) createSecret(ctx context.Context, i cluster.EnsureSecret) (*secretmanagerpb.Secret, error) {
	request := &secretmanagerpb.CreateSecretRequest{
		Parent: "projects/" + c.project, SecretId: i.Ref.Name,
		Secret: &secretmanagerpb.Secret{
			Labels: i.Labels,
			Replication: &secretmanagerpb.Replication{
				Replication: &secretmanagerpb.Replication_Automatic_{Automatic: &secretmanagerpb.Replication_Automatic{}},
			},
		},
	}
	secret, err := persist(ctx, c, func(ctx context.Context) (*secretmanagerpb.Secret, error) {
		return c.secrets.CreateSecret(ctx, request, once)
	})
	if taken(err) { // by an attempt whose answer was lost, or by somebody else, since it was looked for
		return c.secret(ctx, i.Ref.Name)
	}
	return secret, err
}

// hasVersion reports whether a secret has an enabled version.
func (c *Client) hasVersion(ctx context.Context, name string) (bool, error) {
	found := false
	request := &secretmanagerpb.ListSecretVersionsRequest{Parent: c.path("secrets", name)}
	err := pages(ctx, c, func(ctx context.Context) (page[*secretmanagerpb.SecretVersion], error) {
		client, err := listing(ctx, c, "", secretmanager.NewRESTClient)
		if err != nil {
			return nil, err
		}
		return client.ListSecretVersions(ctx, request, once).InternalFetch, nil
	}, func(versions []*secretmanagerpb.SecretVersion) {
		for _, v := range versions {
			found = found || v.GetState() == secretmanagerpb.SecretVersion_ENABLED
		}
	})
	return found, err
}

// addVersion draws the bytes and hands them to Secret Manager. They are kept nowhere else, and no error gets out that may
// quote what was sent: only refusals that came before the content was looked at keep their words.
func (c *Client) addVersion(ctx context.Context, i cluster.EnsureSecret) error {
	value := make([]byte, i.Bytes)
	if err := c.readRandom(value); err != nil {
		return fmt.Errorf("drawing %d random bytes, %w", i.Bytes, err)
	}
	_, err := attempt(ctx, c, func(ctx context.Context) (*secretmanagerpb.SecretVersion, error) {
		return c.secrets.AddSecretVersion(ctx, &secretmanagerpb.AddSecretVersionRequest{
			Parent: c.path("secrets", i.Ref.Name), Payload: &secretmanagerpb.SecretPayload{Data: value},
		}, once)
	})
	clear(value)
	if err == nil {
		return nil
	}
	faults := faultsOf(err)
	out := make(failure, len(faults))
	for at, f := range faults {
		if class := f.class(); class != cluster.Permission && class != cluster.NotFound {
			f.message = fmt.Sprintf("Secret Manager did not take a version of the secret (HTTP status %d, code %q)", f.status, f.code)
		}
		out[at] = f
	}
	return out
}

func (c *Client) deleteSecret(ctx context.Context, name string) (result, error) {
	_, err := persist(ctx, c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.secrets.DeleteSecret(ctx, &secretmanagerpb.DeleteSecretRequest{Name: c.path("secrets", name)}, once)
	})
	return removal("", err)
}
