package gce

import (
	"context"
	"fmt"
	"strings"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// result is what an intent that was accepted leaves behind.
type result struct {
	operation string
	found     cluster.Found
}

// Do implements cloud.Cloud.
func (c *Client) Do(ctx context.Context, intent cluster.Intent) cluster.Outcome {
	out := cluster.Outcome{Intent: intent, At: cluster.Moment(c.now())}
	got, err := c.carryOut(ctx, intent)
	if err != nil {
		resource := subject(intent)
		out.Problem = c.problem(strings.TrimSuffix(intent.Do(), " "+resource), resource, err)
		return out
	}
	out.Operation, out.Found = got.operation, got.found
	return out
}

func (c *Client) carryOut(ctx context.Context, intent cluster.Intent) (result, error) {
	switch i := intent.(type) {
	case cluster.Check:
		return c.check(ctx, i.Ref)
	case cluster.EnsureSecret:
		return c.ensureSecret(ctx, i)
	case cluster.EnsureTemplate:
		return c.ensureTemplate(ctx, i)
	case cluster.EnsureDisk:
		return c.ensureDisk(ctx, i)
	case cluster.EnsureInstance:
		return c.ensureInstance(ctx, i)
	case cluster.Remove:
		return c.remove(ctx, i)
	default:
		return c.carryOutForNodes(ctx, intent)
	}
}

// carryOutForNodes carries out what makes and removes nodes.
func (c *Client) carryOutForNodes(ctx context.Context, intent cluster.Intent) (result, error) {
	switch i := intent.(type) {
	case cluster.CreateGroup:
		return c.createGroup(ctx, i)
	case cluster.CreateRequest:
		return c.createRequest(ctx, i)
	case cluster.CancelRequest:
		return c.cancelRequest(ctx, i)
	case cluster.CreateInstances:
		return c.createInstances(ctx, i)
	case cluster.DeleteInstances:
		return c.deleteInstances(ctx, i)
	case cluster.DeleteInstance:
		return c.deleteInstance(ctx, i.Zone, i.Name, requestID(i))
	case cluster.DeleteGroup:
		return c.deleteGroup(ctx, i)
	case cluster.DeleteTemplate:
		return c.deleteTemplate(ctx, i.Name, requestID(i))
	default:
		return result{}, &cluster.Problem{Class: cluster.Configuration, Message: fmt.Sprintf("an intent of type %T is not for Google Cloud", intent)}
	}
}

// subject is the name of what an intent is about, as its description ends with it.
func subject(intent cluster.Intent) string {
	switch i := intent.(type) {
	case cluster.Check:
		return i.Ref.Name
	case cluster.EnsureSecret:
		return i.Ref.Name
	case cluster.EnsureTemplate:
		return i.Ref.Name
	case cluster.EnsureDisk:
		return i.Ref.Name
	case cluster.EnsureInstance:
		return i.Ref.Name
	case cluster.Remove:
		return i.Ref.Name
	}
	description := intent.Do()
	return description[strings.LastIndexByte(description, ' ')+1:]
}

// removal makes of a call's end the end of a removal: what is gone already is success. A refusal of the request itself
// (Configuration) means that the resource is in a state in which it cannot go now, since there is nothing in a removal that
// a person could have got wrong: a Conflict, to be tried again.
func removal(operation string, err error) (result, error) {
	if missing(err) {
		return result{}, nil
	}
	if err != nil {
		faults := faultsOf(err)
		if f := faults[worst(faults)]; f.class() == cluster.Configuration && !orgPolicy.MatchString(f.message) {
			return result{}, &cluster.Problem{
				Class: cluster.Conflict, Message: f.message, Remedy: "nothing needs to be done if this passes, it is tried again",
			}
		}
		return result{}, err
	}
	return result{operation: operation}, nil
}
