package apiserver

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// write answers a request that writes.
func (s *Server) write(w http.ResponseWriter, q request) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	switch {
	case q.sub == "eviction":
		return s.evict(w, q)
	case q.Method == http.MethodPost && q.name == "":
		return s.create(w, q)
	case q.Method == http.MethodPut && q.name != "":
		return s.update(w, q)
	case q.Method == http.MethodPatch && q.name != "":
		return s.patch(w, q)
	case q.Method == http.MethodDelete && q.name != "" && q.sub == "":
		return s.remove(w, q)
	}
	return errors.NewMethodNotSupported(q.kind.groupResource(), strings.ToLower(q.Method))
}

// read returns the object in the body, which must have the name and namespace of
// the path.
func (q request) read() (Object, error) {
	decoded, err := q.decode(q.kind.empty(), q.kind.gvk())
	if err != nil {
		return nil, err
	}
	o, ok := decoded.(Object)
	if !ok || reflect.TypeOf(o) != reflect.TypeOf(q.kind.object) {
		return nil, errors.NewBadRequest("the body is not a " + q.kind.name)
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})

	if o.GetNamespace() == "" {
		o.SetNamespace(q.namespace)
	}
	if o.GetNamespace() != q.namespace {
		return nil, errors.NewBadRequest(
			"the namespace of the provided object does not match the namespace sent on the request")
	}
	if q.name != "" && o.GetName() != q.name {
		return nil, errors.NewBadRequest("the name of the object does not match the name on the URL")
	}
	return o, nil
}

func (s *Server) create(w http.ResponseWriter, q request) error {
	o, err := q.read()
	if err != nil {
		return err
	}
	if o.GetResourceVersion() != "" {
		return errors.NewInternalError(
			fmt.Errorf("resourceVersion should not be set on objects to be created"))
	}
	return s.add(w, q, o)
}

// add creates an object.
func (s *Server) add(w http.ResponseWriter, q request, o Object) error {
	if o.GetName() == "" {
		return q.invalid("", "name", "name or generateName is required")
	}
	if s.collection(q).objects[keyOf(o.GetNamespace(), o.GetName())] != nil {
		return errors.NewAlreadyExists(q.kind.groupResource(), o.GetName())
	}

	s.uids++
	o.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", s.uids)))
	o.SetCreationTimestamp(meta.NewTime(time.Now().Truncate(time.Second)))
	o.SetDeletionTimestamp(nil)
	if hasGeneration(o) {
		o.SetGeneration(1)
	}
	if secret, ok := o.(*core.Secret); ok {
		completeSecret(secret)
	}
	v := s.store(q, nil, o)
	return q.answerVersion(w, http.StatusCreated, v)
}

// completeSecret moves texts to the data.
func completeSecret(secret *core.Secret) {
	for key, text := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(text)
	}
	secret.StringData = nil
	if secret.Type == "" {
		secret.Type = core.SecretTypeOpaque
	}
}

// hasGeneration reports whether an object counts the changes of its spec.
func hasGeneration(o Object) bool {
	switch o.(type) {
	case *core.Node, *core.Secret, *core.Event:
		return false
	}
	return part(o, "Status").IsValid()
}

func (q request) invalid(name, path, why string) error {
	return errors.NewInvalid(q.kind.groupKind(), name, field.ErrorList{
		field.Invalid(field.NewPath("metadata", path), "", why),
	})
}

func (s *Server) update(w http.ResponseWriter, q request) error {
	o, err := q.read()
	if err != nil {
		return err
	}

	v, err := s.object(q)
	if err != nil {
		if !q.kind.creates || q.sub != "" {
			return err
		}
		return s.addByUpdate(w, q, o)
	}
	if o.GetResourceVersion() == "" && !q.kind.unconditional {
		return q.invalid(q.name, "resourceVersion", "must be specified for an update")
	}
	return s.replace(w, q, v, o)
}

// addByUpdate creates an object by an update, unless it should have replaced one.
func (s *Server) addByUpdate(w http.ResponseWriter, q request, o Object) error {
	if o.GetUID() != "" {
		return errors.NewConflict(q.kind.groupResource(), q.name,
			fmt.Errorf("the UID %s is of an object that is gone", o.GetUID()))
	}
	if o.GetResourceVersion() != "" {
		return errors.NewNotFound(q.kind.groupResource(), q.name)
	}
	return s.add(w, q, o)
}

// replace writes o in place of v, unless it was made of another version.
func (s *Server) replace(w http.ResponseWriter, q request, v *version, o Object) error {
	before := v.object
	if uid := o.GetUID(); uid != "" && uid != before.GetUID() {
		return errors.NewConflict(q.kind.groupResource(), q.name, fmt.Errorf(
			"the UID is %s, not %s", before.GetUID(), uid))
	}
	if number := o.GetResourceVersion(); number != "" && number != before.GetResourceVersion() {
		return errors.NewConflict(q.kind.groupResource(), q.name,
			fmt.Errorf("the object has been modified: its version is %s, not %s",
				before.GetResourceVersion(), number))
	}

	o.SetUID(before.GetUID())
	o.SetResourceVersion(before.GetResourceVersion())
	o.SetCreationTimestamp(before.GetCreationTimestamp())
	o.SetDeletionTimestamp(before.GetDeletionTimestamp())
	o.SetDeletionGracePeriodSeconds(before.GetDeletionGracePeriodSeconds())
	o.SetGeneration(before.GetGeneration())
	switch {
	case q.sub == "status":
		keep(o, before, "Spec")
	case q.kind.hasStatus():
		keep(o, before, "Status")
	}
	if secret, ok := o.(*core.Secret); ok {
		completeSecret(secret)
	}
	if hasGeneration(o) && !equality.Semantic.DeepEqual(
		part(o, "Spec").Interface(), part(before, "Spec").Interface()) {
		o.SetGeneration(before.GetGeneration() + 1)
	}

	if !equality.Semantic.DeepEqual(o, before) {
		v = s.store(q, v, o)
	}
	return q.answerVersion(w, http.StatusOK, v)
}

func (s *Server) patch(w http.ResponseWriter, q request) error {
	v, err := s.object(q)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(q.Body)
	if err != nil {
		return err
	}
	have, err := json.Marshal(v.object)
	if err != nil {
		return errors.NewInternalError(err)
	}

	mediaType, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type"))
	switch types.PatchType(mediaType) {
	case types.MergePatchType:
		have, err = merge(have, text, false)
	case types.StrategicMergePatchType:
		have, err = merge(have, text, true)
	default:
		return errors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch",
			q.kind.groupResource(), q.name, fmt.Sprintf("a patch of type %q", mediaType), 0, true)
	}
	o := q.kind.empty()
	if err == nil {
		err = json.Unmarshal(have, o)
	}
	if err != nil {
		return errors.NewBadRequest(err.Error())
	}
	if o.GetUID() != v.object.GetUID() {
		return q.invalid(q.name, "uid", "field is immutable")
	}
	return s.replace(w, q, v, o)
}

// remove deletes an object.
func (s *Server) remove(w http.ResponseWriter, q request) error {
	var options meta.DeleteOptions
	if q.ContentLength != 0 {
		_, err := q.decode(&options, core.SchemeGroupVersion.WithKind("DeleteOptions"))
		if err != nil && q.ContentLength > 0 {
			return err
		}
	}
	if text := q.URL.Query().Get("gracePeriodSeconds"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.NewBadRequest("gracePeriodSeconds: " + err.Error())
		}
		options.GracePeriodSeconds = &seconds
	}

	v, err := s.object(q)
	if err != nil {
		return err
	}
	uid := v.object.GetUID()
	last, err := s.delete(q, v, options)
	if err != nil {
		return err
	}
	if q.kind.resource == "pods" {
		return q.answerVersion(w, http.StatusOK, last)
	}
	return answer(w, q, http.StatusOK, &meta.Status{
		Status: meta.StatusSuccess,
		Details: &meta.StatusDetails{
			Name:  q.name,
			Group: q.kind.version.Group,
			Kind:  q.kind.resource,
			UID:   uid,
		},
	}, schema.GroupVersion{Version: "v1"})
}
