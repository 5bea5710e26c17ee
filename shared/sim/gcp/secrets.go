package gcp

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

type secretState struct {
	Versions int // that were ever added
}

type versionState struct {
	Number int
	Data   []byte
}

type (
	secret        = record[*secretmanagerpb.Secret, secretState]
	secretVersion = record[*secretmanagerpb.SecretVersion, versionState]
)

var secretName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}$`)

const largestPayload = 64 << 10

func secretRoutes() []route {
	const secrets = "/v1/projects/{project}/secrets" //nolint:gosec // a path, not a credential
	const one = secrets + "/{secret}"
	const versions = one + "/versions"
	return []route{
		{"POST", secrets, "secretmanager.secrets.create", (*Server).createSecret},
		{"GET", secrets, "secretmanager.secrets.list", func(s *Server, c *call) (wire, error) {
			return s.rpcList(c, "secrets", s.secrets.shown("secrets/"))
		}},
		{"GET", one, "secretmanager.secrets.get", (*Server).getSecret},
		{"PATCH", one, "secretmanager.secrets.update", (*Server).updateSecret},
		{"DELETE", one, "secretmanager.secrets.delete", (*Server).deleteSecret},
		{"POST", one + ":addVersion", "secretmanager.versions.add", (*Server).addVersion},
		{"GET", versions, "secretmanager.versions.list", func(s *Server, c *call) (wire, error) {
			return s.rpcList(c, "versions", s.versions.shown(c.key()+"/"))
		}},
		{"GET", versions + "/{version}", "secretmanager.versions.get", (*Server).getVersion},
		{"GET", versions + "/{version}:access", "secretmanager.versions.access", (*Server).accessVersion},
		{"POST", versions + "/{version}:destroy", "secretmanager.versions.destroy", (*Server).destroyVersion},
		{"POST", versions + "/{version}:disable", "secretmanager.versions.disable", (*Server).disableVersion},
		{"POST", versions + "/{version}:enable", "secretmanager.versions.enable", (*Server).enableVersion},
	}
}

// secretPath is a secret's name as its API states it: with the project's
// number.
func (s *Server) secretPath(key string) string { return s.numbered(key) }

func (s *Server) createSecret(c *call) (wire, error) {
	id := c.query.Get("secretId")
	if !secretName.MatchString(id) {
		return nil, invalid("The provided Secret ID [%s] does not match the expected format [[a-zA-Z_0-9]+].", id)
	}
	in := &secretmanagerpb.Secret{}
	if err := c.decode(in); err != nil {
		return nil, err
	}
	if in.GetReplication() == nil {
		return nil, invalid("Replication must be specified: secret.replication is missing.")
	}
	if err := checkLabels("secret.labels", in.GetLabels()); err != nil {
		return nil, err
	}
	key := "secrets/" + id
	if s.secrets.get(key) != nil {
		return nil, &apiError{status: http.StatusConflict, reason: "alreadyExists", message: fmt.Sprintf("Secret [%s] already exists.", s.secretPath(key))}
	}
	in.Name, in.CreateTime, in.Etag = s.secretPath(key), timestamppb.New(s.now), s.etag()
	s.secrets.put(key, in, secretState{})
	return encode(in)
}

func (s *Server) etag() string { return fmt.Sprintf(`"%x"`, mix(s.newID())>>8) }

func (s *Server) findSecret(c *call) (*secret, error) {
	key := "secrets/" + c.path("secret")
	r := s.secrets.get(key)
	if r == nil {
		return nil, secretNotFound("Secret", s.secretPath(key))
	}
	return r, nil
}

func secretNotFound(kind, name string) *apiError {
	return &apiError{status: http.StatusNotFound, reason: "notFound", message: fmt.Sprintf("%s [%s] not found.", kind, name)}
}

func (s *Server) getSecret(c *call) (wire, error) {
	r, err := s.findSecret(c)
	if err != nil {
		return nil, err
	}
	return encode(r.Wire)
}

func checkEtag(sent, is string) error {
	if sent != "" && sent != is {
		return &apiError{status: http.StatusBadRequest, reason: "failedPrecondition", message: fmt.Sprintf("The etag sent, %s, does not match the current one, %s.", sent, is)}
	}
	return nil
}

func (s *Server) updateSecret(c *call) (wire, error) {
	r, err := s.findSecret(c)
	if err != nil {
		return nil, err
	}
	in := &secretmanagerpb.Secret{}
	if err := c.decode(in); err != nil {
		return nil, err
	}
	if err := checkEtag(in.GetEtag(), r.Wire.GetEtag()); err != nil {
		return nil, err
	}
	next := cloneOf(r.Wire)
	for _, path := range strings.Split(c.query.Get("updateMask"), ",") {
		switch path {
		case "labels":
			next.Labels = in.GetLabels()
		case "annotations":
			next.Annotations = in.GetAnnotations()
		default:
			return nil, invalid("Invalid value for field 'updateMask': '%s'.", path)
		}
	}
	next.Etag = s.etag()
	r.Wire = next
	s.secrets.changed(r)
	return encode(r.Wire)
}

func (s *Server) deleteSecret(c *call) (wire, error) {
	r, err := s.findSecret(c)
	if err != nil {
		return nil, err
	}
	if err := checkEtag(c.query.Get("etag"), r.Wire.GetEtag()); err != nil {
		return nil, err
	}
	for v := range s.versions.under(r.Key + "/") {
		s.versions.drop(v.Key)
	}
	s.secrets.drop(r.Key)
	return wire("{}"), nil
}

// versionKey pads the number, so that versions are in order.
func versionKey(secretKey string, number int) string {
	return fmt.Sprintf("%s/versions/%09d", secretKey, number)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *Server) addVersion(c *call) (wire, error) {
	r, err := s.findSecret(c)
	if err != nil {
		return nil, err
	}
	in := &secretmanagerpb.AddSecretVersionRequest{}
	if err := c.decode(in); err != nil {
		return nil, err
	}
	data := in.GetPayload().GetData()
	if len(data) == 0 {
		return nil, invalid("Secret Payload cannot be empty.")
	}
	if len(data) > largestPayload {
		return nil, invalid("The payload of %d bytes is larger than the limit of %d bytes.", len(data), largestPayload)
	}
	if sent := in.GetPayload().DataCrc32C; sent != nil && *sent != int64(crc32.Checksum(data, castagnoli)) {
		return nil, invalid("The checksum of the payload is wrong: dataCrc32c is %d, and must be %d.", *sent, crc32.Checksum(data, castagnoli))
	}
	r.State.Versions++
	s.secrets.changed(r)
	v := &secretmanagerpb.SecretVersion{
		Name: fmt.Sprintf("%s/versions/%d", r.Wire.GetName(), r.State.Versions), CreateTime: timestamppb.New(s.now),
		State: secretmanagerpb.SecretVersion_ENABLED, Etag: s.etag(),
		ClientSpecifiedPayloadChecksum: in.GetPayload().DataCrc32C != nil,
		ReplicationStatus:              &secretmanagerpb.ReplicationStatus{ReplicationStatus: &secretmanagerpb.ReplicationStatus_Automatic{Automatic: &secretmanagerpb.ReplicationStatus_AutomaticStatus{}}},
	}
	s.versions.put(versionKey(r.Key, r.State.Versions), v, versionState{Number: r.State.Versions, Data: data})
	return encode(v)
}

// findVersion finds a version by number, or "latest", which is the newest one
// whatever its state.
func (s *Server) findVersion(c *call) (*secretVersion, error) {
	r, err := s.findSecret(c)
	if err != nil {
		return nil, err
	}
	name := c.path("version")
	number := r.State.Versions
	if name != "latest" {
		if number, err = strconv.Atoi(name); err != nil {
			return nil, invalid("Invalid version '%s': must be a number or 'latest'.", name)
		}
	}
	v := s.versions.get(versionKey(r.Key, number))
	if v == nil {
		return nil, secretNotFound("Secret Version", r.Wire.GetName()+"/versions/"+name)
	}
	return v, nil
}

func (s *Server) getVersion(c *call) (wire, error) {
	v, err := s.findVersion(c)
	if err != nil {
		return nil, err
	}
	return encode(v.Wire)
}

func (s *Server) accessVersion(c *call) (wire, error) {
	v, err := s.findVersion(c)
	if err != nil {
		return nil, err
	}
	if v.Wire.GetState() != secretmanagerpb.SecretVersion_ENABLED {
		return nil, &apiError{
			status: http.StatusBadRequest, reason: "failedPrecondition",
			message: fmt.Sprintf("Secret Version [%s] is in %s state.", v.Wire.GetName(), v.Wire.GetState()),
		}
	}
	return encode(&secretmanagerpb.AccessSecretVersionResponse{
		Name:    v.Wire.GetName(),
		Payload: &secretmanagerpb.SecretPayload{Data: v.State.Data, DataCrc32C: new(int64(crc32.Checksum(v.State.Data, castagnoli)))},
	})
}

func (s *Server) destroyVersion(c *call) (wire, error) {
	return s.changeVersion(c, func(v *secretVersion) {
		v.State.Data = nil
		v.Wire.State, v.Wire.DestroyTime = secretmanagerpb.SecretVersion_DESTROYED, timestamppb.New(s.now)
	})
}

func (s *Server) disableVersion(c *call) (wire, error) {
	return s.changeVersion(c, func(v *secretVersion) { v.Wire.State = secretmanagerpb.SecretVersion_DISABLED })
}

func (s *Server) enableVersion(c *call) (wire, error) {
	return s.changeVersion(c, func(v *secretVersion) { v.Wire.State = secretmanagerpb.SecretVersion_ENABLED })
}

func (s *Server) changeVersion(c *call, change func(*secretVersion)) (wire, error) {
	v, err := s.findVersion(c)
	if err != nil {
		return nil, err
	}
	var in struct {
		Etag string `json:"etag"`
	}
	if len(c.body) > 0 {
		if err := json.Unmarshal(c.body, &in); err != nil {
			return nil, undecodable(err)
		}
	}
	if err := checkEtag(in.Etag, v.Wire.GetEtag()); err != nil {
		return nil, err
	}
	if v.Wire.GetState() == secretmanagerpb.SecretVersion_DESTROYED {
		return nil, &apiError{status: http.StatusBadRequest, reason: "failedPrecondition", message: fmt.Sprintf("Secret Version [%s] is in DESTROYED state.", v.Wire.GetName())}
	}
	change(v)
	v.Wire.Etag = s.etag()
	s.versions.changed(v)
	return encode(v.Wire)
}
