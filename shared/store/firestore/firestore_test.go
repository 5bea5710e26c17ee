package firestore_test

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/convoke-hpc/convoke/shared/store"
	"github.com/convoke-hpc/convoke/shared/store/firestore"
	"github.com/convoke-hpc/convoke/shared/store/storetest"
)

// emulator is the emulator's address, without which there is nothing to test against.
func emulator(t testing.TB) string {
	t.Helper()
	addr := os.Getenv("FIRESTORE_EMULATOR_HOST")
	if addr == "" {
		t.Skip("needs the Firestore emulator: FIRESTORE_EMULATOR_HOST is not set (scripts/test starts one)")
	}
	return addr
}

// project is a new project's id: the emulator keeps projects apart, and so tests and runs.
func project() string { return "test-" + strings.ToLower(rand.Text()[:16]) }

func open(t testing.TB, project string, client ...option.ClientOption) *firestore.Store {
	t.Helper()
	emulator(t)
	s, err := firestore.Open(t.Context(), project, firestore.Options{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// wire is a connection to the emulator on which calls can be watched, held up and cut.
func wire(t testing.TB, intercept grpc.UnaryClientInterceptor) option.ClientOption {
	t.Helper()
	asOwner := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return invoke(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer owner"), method, req, reply, conn, opts...)
	}
	streamAsOwner := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return stream(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer owner"), desc, conn, method, opts...)
	}
	const enough = 64 << 20
	conn, err := grpc.NewClient(emulator(t), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(enough), grpc.MaxCallSendMsgSize(enough)),
		grpc.WithChainUnaryInterceptor(asOwner, intercept), grpc.WithChainStreamInterceptor(streamAsOwner))
	if err != nil {
		t.Fatal(err)
	}
	return option.WithGRPCConn(conn)
}

const commitMethod = "/google.firestore.v1.Firestore/Commit"

// cut turns a cut line into what a network's loss looks like: each time another of the codes that say nothing.
func cut(line *storetest.Line) grpc.UnaryClientInterceptor {
	saysNothing := []codes.Code{codes.DeadlineExceeded, codes.Unavailable, codes.Aborted, codes.Canceled, codes.Unknown, codes.Internal}
	var n atomic.Int64
	loss := func() error {
		return status.Error(saysNothing[int(n.Add(1))%len(saysNothing)], storetest.ErrLost.Error())
	}
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if method != commitMethod {
			return invoke(ctx, method, req, reply, conn, opts...)
		}
		if line.Before() != nil {
			return loss()
		}
		if err := invoke(ctx, method, req, reply, conn, opts...); err != nil {
			return err
		}
		if line.After() != nil {
			return loss()
		}
		return nil
	}
}

func overLine(t testing.TB, line *storetest.Line) store.Store {
	return open(t, project(), wire(t, cut(line)))
}

func TestContract(t *testing.T) {
	emulator(t)
	storetest.Run(t, overLine)
}

func BenchmarkStore(b *testing.B) {
	emulator(b)
	storetest.Bench(b, overLine)
}
