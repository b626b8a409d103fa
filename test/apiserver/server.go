package apiserver

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// firstNumber is the resource version of an empty server: there were versions
// before it, which are forgotten.
const firstNumber = 1000

// Write is a change of an object. Before is nil for a new one, and After for one
// that is deleted. They must not be changed.
type Write struct{ Before, After Object }

// Server is an API server in memory. It implements [http.Handler].
type Server struct {
	// Watched is called with each write, in order, before it is answered. It must
	// not use the server. nil for none; it may be set until the first request.
	Watched func(Write)

	mu          sync.Mutex
	number      uint64
	uids        uint64
	collections map[*kind]*collection
}

// New returns a server without objects.
func New() *Server {
	s := &Server{number: firstNumber, collections: map[*kind]*collection{}}
	for _, k := range kinds {
		s.collections[k] = newCollection(k, firstNumber)
	}
	return s
}

// Compact forgets all versions of objects but the present ones, so a watch from
// an earlier version is refused.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		c.compact(len(c.history))
	}
}

// request is what a request is about.
type request struct {
	*http.Request
	kind      *kind
	namespace string

	// name is "" for the whole collection, sub "" for the object itself.
	name, sub string

	// to is how the answer is encoded, as which form it has: "" for objects,
	// "Table" or "PartialObjectMetadata".
	to runtime.SerializerInfo
	as string
}

// selection is which objects of a kind a request is about.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func (s selection) matches(o Object) bool {
	return (s.namespace == "" || o.GetNamespace() == s.namespace) &&
		(s.labels.Empty() || s.labels.Matches(labels.Set(o.GetLabels()))) &&
		(s.fields.Empty() || s.fields.Matches(fieldsOf(o)))
}

// key returns the key of the only object that s may have, false if it may have
// several.
func (s selection) key(k *kind) (string, bool) {
	name, ok := s.fields.RequiresExactMatch("metadata.name")
	return keyOf(s.namespace, name), ok && (s.namespace != "" || !k.namespaced)
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := requestOf(r)
	if err != nil {
		answerError(w, q, err)
		return
	}

	isRead := r.Method == http.MethodGet
	switch {
	case isRead && q.name == "" && isTrue(r, "watch"):
		err = s.watch(w, q)
	case isRead && q.name == "":
		err = s.list(w, q)
	case isRead:
		err = s.get(w, q)
	default:
		err = s.write(w, q)
	}
	if err != nil {
		answerError(w, q, err)
	}
}

func isTrue(r *http.Request, key string) bool {
	is, _ := strconv.ParseBool(r.URL.Query().Get(key))
	return is
}

// requestOf reads the path of a request, such as
// /apis/GROUP/v1/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE, and its Accept.
func requestOf(r *http.Request) (request, error) {
	q := request{Request: r}
	var err error
	q.to, q.as, err = accepted(r.Header.Get("Accept"))
	if err != nil {
		return q, err
	}

	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	length := 2
	if parts[0] == "apis" {
		length = 3
	}
	rest := parts[min(length, len(parts)):]
	if len(rest) > 2 && rest[0] == "namespaces" {
		q.namespace = rest[1]
		rest = rest[2:]
	}

	absent := errors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{},
		"", "the server could not find the requested resource", 0, true)
	if len(rest) == 0 || len(rest) > 3 {
		return q, absent
	}
	q.kind = kinds[strings.Join(append(parts[:min(length, len(parts))], rest[0]), "/")]
	if q.kind == nil || (q.namespace != "" && !q.kind.namespaced) {
		return q, absent
	}
	if len(rest) > 1 {
		q.name = rest[1]
	}
	if len(rest) > 2 {
		q.sub = rest[2]
	}

	isStatus := q.sub == "status" && q.kind.hasStatus()
	isEviction := q.sub == "eviction" && q.kind.resource == "pods" && r.Method == http.MethodPost
	if q.sub != "" && !isStatus && !isEviction {
		return q, absent
	}
	return q, nil
}

// accepted returns how an answer is encoded, and its form.
func accepted(header string) (to runtime.SerializerInfo, as string, err error) {
	for text := range strings.SplitSeq(header, ",") {
		mediaType, parameters, err := mime.ParseMediaType(text)
		if err != nil || mediaType == "*/*" || mediaType == "application/*" {
			mediaType = runtime.ContentTypeJSON
		}
		if to, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType); ok {
			as := parameters["as"]
			if as == asMetadata+"List" {
				as = asMetadata
			}
			return to, as, nil
		}
	}

	to, _ = runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	return to, "", errors.NewGenericServerResponse(http.StatusNotAcceptable, "", schema.GroupResource{},
		"", "only JSON and protobuf are spoken", 0, true)
}

// selection returns which objects the request is about.
func (q request) selection() (selection, error) {
	s := selection{namespace: q.namespace}
	var err error
	s.labels, err = labels.Parse(q.URL.Query().Get("labelSelector"))
	if err != nil {
		return s, errors.NewBadRequest(err.Error())
	}
	s.fields, err = fields.ParseSelector(q.URL.Query().Get("fieldSelector"))
	if err != nil {
		return s, errors.NewBadRequest(err.Error())
	}

	known := fieldsOf(q.kind.object)
	known["metadata.namespace"] = ""
	for _, r := range s.fields.Requirements() {
		if _, ok := known[r.Field]; !ok {
			return s, errors.NewBadRequest("field label not supported: " + r.Field)
		}
	}
	return s, nil
}

// collection returns that of the request.
func (s *Server) collection(q request) *collection { return s.collections[q.kind] }

// object returns the object that the request names. The lock must be held.
func (s *Server) object(q request) (*version, error) {
	v := s.collection(q).objects[keyOf(q.namespace, q.name)]
	if v == nil {
		return nil, errors.NewNotFound(q.kind.groupResource(), q.name)
	}
	return v, nil
}

// decode reads the body of a request.
func (q request) decode(into runtime.Object, gvk schema.GroupVersionKind) (runtime.Object, error) {
	text, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	mediaType, _, err := mime.ParseMediaType(q.Header.Get("Content-Type"))
	if err != nil {
		mediaType = runtime.ContentTypeJSON
	}
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		return nil, errors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "",
			schema.GroupResource{}, "", fmt.Sprintf("the body is %q", mediaType), 0, true)
	}
	o, _, err := info.Serializer.Decode(text, &gvk, into)
	if err != nil {
		return nil, errors.NewBadRequest(err.Error())
	}
	return o, nil
}

// answer writes an object of a group and version.
func answer(w http.ResponseWriter, q request, code int, o runtime.Object, of schema.GroupVersion) error {
	text, err := runtime.Encode(codecs.EncoderForVersion(q.to.Serializer, of), o)
	if err != nil {
		return errors.NewInternalError(err)
	}
	writeAnswer(w, q, code, text)
	return nil
}

func writeAnswer(w http.ResponseWriter, q request, code int, text []byte) {
	w.Header().Set("Content-Type", q.to.MediaType)
	w.WriteHeader(code)
	_, _ = w.Write(text) // The client may be gone.
}

// answerError writes an error as a Status.
func answerError(w http.ResponseWriter, q request, err error) {
	status := statusOf(err)
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	_ = answer(w, q, int(status.Code), status, schema.GroupVersion{Version: "v1"})
}

func statusOf(err error) *meta.Status {
	known, ok := err.(errors.APIStatus)
	if !ok {
		known = errors.NewInternalError(err)
	}
	status := known.Status()
	return &status
}
