// Package decode turns a document into the configuration that it asks of one
// node.
//
//	source.Document --osc.Decode, Check--> OperatingSystemConfig
//	                                                |
//	references --> Contents: cluster, directory, images
//	                                                |
//	                           osc.MergeChecked --> config.Desired
//
// [Decoder.Decode] validates the document, resolves what it refers to, and
// merges all of it into a config.Desired. [Images] and [Fallback] are places to
// resolve references from; the others are in agent/content and agent/cluster.
package decode
