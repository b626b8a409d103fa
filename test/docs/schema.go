package docs

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"time"
)

// schema is a JSON schema (draft 2020-12), as far as documents need it.
type schema struct {
	Schema      string `json:"$schema,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`

	Type    []string `json:"type,omitempty"`
	Format  string   `json:"format,omitempty"`
	Const   string   `json:"const,omitempty"`
	Enum    []string `json:"enum,omitempty"`
	Minimum *int64   `json:"minimum,omitempty"`
	Maximum *int64   `json:"maximum,omitempty"`

	Required      []string           `json:"required,omitempty"`
	MinProperties int                `json:"minProperties,omitempty"`
	MaxProperties int                `json:"maxProperties,omitempty"`
	Properties    map[string]*schema `json:"properties,omitempty"`
	Additional    *bool              `json:"additionalProperties,omitempty"`
	Items         *schema            `json:"items,omitempty"`
}

// limits are what types do not say of the value at a path. Only rules that
// concern a single value are here; the validator has all.
type limits map[string]schema

func machineLimits() limits {
	return limits{
		"":                          {Required: []string{"apiVersion", "kind"}},
		"apiVersion":                {Const: "loam.dev/v1alpha1"},
		"kind":                      {Const: "Machine"},
		"hostnameFrom":              {Enum: []string{"dhcp", "serial"}},
		"network":                   {MinProperties: 1},
		"network.interfaces[]":      {Required: []string{"name"}},
		"network.interfaces[].bond": {Required: []string{"mode", "interfaces"}},
		"network.interfaces[].bond.mode": {Enum: []string{
			"active-backup", "802.3ad", "balance-rr", "balance-xor", "broadcast", "balance-tlb",
			"balance-alb",
		}},
		"network.interfaces[].clientID": {Enum: []string{"machine", "mac"}},
		"network.interfaces[].vlan":     {Required: []string{"id", "interface"}},
		"network.interfaces[].bridge":   {Required: []string{"interfaces"}},
		"source":                        {MinProperties: 1, MaxProperties: 1},
		"source.file":                   {Required: []string{"path"}},
		"source.esp":                    {Required: []string{"path"}},
		"source.credential":             {Required: []string{"name"}},
		"source.cluster":                {Required: []string{"server", "ca", "secret"}},
		"source.cluster.tokens[]":       {Required: []string{"secret", "path"}},
		"cluster":                       {MinProperties: 1},
		"cluster.init.network":          {Enum: []string{"routes", "none"}},
		"cluster.init.audit.policy":     {Enum: []string{"none", "metadata", "request"}},
		"files[]":                       {Required: []string{"path"}},
		"contents":                      {MinProperties: 1},
		"contents.directory":            {Required: []string{"path"}},
		"upgrade":                       {MinProperties: 1},
		"dataVolume":                    {MinProperties: 1},
		"dataVolume.fileSystem":         {Enum: []string{"ext4", "xfs"}},
		"install":                       {Required: []string{"disk"}},
		"install.disk":                  {MinProperties: 1},
		"state":                         {MinProperties: 1},
		"state.encrypt":                 {Enum: []string{"tpm", "key"}},
		"state.disk":                    {MinProperties: 1},
		"state.onDamage":                {Enum: []string{"reset"}},
		"kernel":                        {MinProperties: 1},
	}
}

func oscLimits() limits {
	all := limits{
		"":               {Required: []string{"apiVersion", "kind"}},
		"apiVersion":     {Const: "extensions.gardener.cloud/v1alpha1"},
		"kind":           {Const: "OperatingSystemConfig"},
		"spec.purpose":   {Enum: []string{"provision", "reconcile"}},
		"spec.criConfig": {Required: []string{"name"}},
	}

	for _, units := range []string{"spec.units[]", "status.extensionUnits[]"} {
		all[units] = schema{Required: []string{"name"}}
		all[units+".command"] = schema{Enum: []string{"start", "restart", "stop"}}
		all[units+".dropIns[]"] = schema{Required: []string{"name"}}
	}

	for _, files := range []string{"spec.files[]", "status.extensionFiles[]"} {
		all[files] = schema{Required: []string{"path", "content"}}
		all[files+".content"] = schema{MinProperties: 1}
		all[files+".content.inline.encoding"] = schema{Enum: []string{"", "b64"}}
	}

	return all
}

// schemaText returns the JSON schema of a document with those fields.
func schemaText(title, intro string, fields []Field, limits limits) (string, error) {
	s := schema{
		Schema:      "https://json-schema.org/draft/2020-12/schema",
		Title:       title,
		Description: intro,
		Type:        []string{"object"},
		Required:    limits[""].Required,
	}
	s.addFields(fields, limits)

	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(s)
	return text.String(), err
}

// addFields makes s the schema of a mapping with those fields and no others.
func (s *schema) addFields(fields []Field, limits limits) {
	no := false
	s.Additional = &no
	s.Properties = map[string]*schema{}
	for _, f := range fields {
		one := schemaOf(f.decoded, f, limits)
		one.Description = f.Text
		s.Properties[f.name] = one
	}
}

// schemaOf returns the schema of a value of type t, which belongs to the field.
// Null is as if the value were absent.
func schemaOf(t reflect.Type, f Field, limits limits) *schema {
	var s schema
	switch {
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), f, limits)
	case t.Kind() == reflect.Interface:
		return &s
	case t == reflect.TypeFor[time.Time]():
		s.Type = []string{"string", "null"}
		s.Format = "date-time"
		return &s
	case t.Kind() == reflect.Slice:
		s.Type = []string{"array", "null"}
		s.Items = schemaOf(t.Elem(), f, limits)
		return &s
	case t.Kind() == reflect.Map:
		s.Type = []string{"object", "null"}
	case t.Kind() == reflect.Struct:
		s = limits[f.Path]
		s.Type = []string{"object", "null"}
		s.addFields(f.inside, limits)
	case t.Kind() == reflect.Bool:
		s.Type = []string{"boolean", "null"}
	case t.Kind() == reflect.String:
		s = limits[f.Path]
		s.Type = []string{"string", "null"}
	default:
		s.Type = []string{"integer", "null"}
		s.Minimum, s.Maximum = bounds(t)
	}

	if s.Const != "" || len(s.Enum) > 0 {
		s.Type = slices.DeleteFunc(s.Type, func(name string) bool { return name == "null" })
	}
	return &s
}

// bounds returns the least and the greatest number of a type, nil for those that
// no document reaches.
func bounds(t reflect.Type) (least, most *int64) {
	if t.Kind() == reflect.Uint32 {
		zero, all := int64(0), int64(math.MaxUint32)
		return &zero, &all
	}
	return nil, nil
}
