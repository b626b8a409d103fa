package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Forms of an answer.
const (
	asTable    = "Table"
	asMetadata = "PartialObjectMetadata"
)

// metaVersion is the group of forms.
var metaVersion = meta.SchemeGroupVersion

func (s *Server) get(w http.ResponseWriter, q request) error {
	s.mu.Lock()
	v, err := s.object(q)
	s.mu.Unlock()
	switch {
	case err != nil:
		return err
	case q.as == asTable:
		return answer(w, q, http.StatusOK, tableOf(q, []*version{v}), metaVersion)
	}

	text, err := v.encode(q)
	if err != nil {
		return err
	}
	writeAnswer(w, q, http.StatusOK, text)
	return nil
}

// encode returns the object in the form of a request.
func (v *version) encode(q request) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := q.to.MediaType + q.as
	if text, ok := v.encoded[key]; ok {
		return text, nil
	}

	var o runtime.Object = v.object
	of := q.kind.version
	if q.as == asMetadata {
		o = metadataOf(v.object)
		of = metaVersion
	}
	text, err := runtime.Encode(codecs.EncoderForVersion(q.to.Serializer, of), o)
	if err != nil {
		return nil, errors.NewInternalError(err)
	}
	if v.encoded == nil {
		v.encoded = map[string][]byte{}
	}
	v.encoded[key] = text
	return text, nil
}

func metadataOf(o Object) *meta.PartialObjectMetadata {
	m := apimeta.AsPartialObjectMetadata(o)
	m.SetGroupVersionKind(metaVersion.WithKind(asMetadata))
	return m
}

// page is where a list goes on.
type page struct{ After string }

func (s *Server) list(w http.ResponseWriter, q request) error {
	selection, err := q.selection()
	if err != nil {
		return err
	}

	s.mu.Lock()
	found := s.collection(q).find(selection)
	listed := meta.ListMeta{ResourceVersion: strconv.FormatUint(s.number, 10)}
	s.mu.Unlock()

	found, err = q.page(found, &listed, selection)
	if err != nil {
		return err
	}
	switch q.as {
	case asTable:
		t := tableOf(q, found)
		t.ListMeta = listed
		return answer(w, q, http.StatusOK, t, metaVersion)
	case asMetadata:
		list := &meta.PartialObjectMetadataList{ListMeta: listed}
		for _, v := range found {
			list.Items = append(list.Items, *metadataOf(v.object))
		}
		return answer(w, q, http.StatusOK, list, metaVersion)
	}

	list := q.kind.list.DeepCopyObject()
	objects := make([]runtime.Object, len(found))
	for i, v := range found {
		objects[i] = v.object
	}
	if err := apimeta.SetList(list, objects); err != nil {
		return errors.NewInternalError(err)
	}
	m, err := apimeta.ListAccessor(list)
	if err != nil {
		return errors.NewInternalError(err)
	}
	m.SetResourceVersion(listed.ResourceVersion)
	m.SetContinue(listed.Continue)
	m.SetRemainingItemCount(listed.RemainingItemCount)
	return answer(w, q, http.StatusOK, list, q.kind.version)
}

// page returns the part of a list that a request with a limit gets.
func (q request) page(found []*version, m *meta.ListMeta, s selection) ([]*version, error) {
	query := q.URL.Query()
	if token := query.Get("continue"); token != "" {
		var p page
		text, err := base64.RawURLEncoding.DecodeString(token)
		if err == nil {
			err = json.Unmarshal(text, &p)
		}
		if err != nil {
			return nil, errors.NewBadRequest("continue key is not valid: " + err.Error())
		}
		first := slices.IndexFunc(found, func(v *version) bool {
			return strings.Compare(keyOf(v.object.GetNamespace(), v.object.GetName()), p.After) > 0
		})
		if first < 0 {
			first = len(found)
		}
		found = found[first:]
	}

	limit, _ := strconv.Atoi(query.Get("limit"))
	if limit <= 0 || len(found) <= limit {
		return found, nil
	}
	last := found[limit-1].object
	token, _ := json.Marshal(page{keyOf(last.GetNamespace(), last.GetName())}) // A string only.
	m.Continue = base64.RawURLEncoding.EncodeToString(token)
	if s.labels.Empty() && s.fields.Empty() {
		rest := int64(len(found) - limit)
		m.RemainingItemCount = &rest
	}
	return found[:limit], nil
}

// tableOf returns objects as kubectl prints them.
func tableOf(q request, found []*version) *meta.Table {
	t := &meta.Table{Rows: []meta.TableRow{}}
	for _, name := range q.kind.columns {
		t.ColumnDefinitions = append(t.ColumnDefinitions,
			meta.TableColumnDefinition{Name: name, Type: "string"})
	}

	include := meta.IncludeObjectPolicy(q.URL.Query().Get("includeObject"))
	for _, v := range found {
		row := meta.TableRow{Cells: q.kind.cells(v.object)}
		switch include {
		case meta.IncludeNone:
		case meta.IncludeObject:
			o := v.object.DeepCopyObject()
			o.GetObjectKind().SetGroupVersionKind(q.kind.gvk())
			row.Object.Object = o
		default:
			row.Object.Object = metadataOf(v.object)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (k *kind) gvk() schema.GroupVersionKind { return k.version.WithKind(k.name) }
