# Firestore, which holds the clusters: their records, mailboxes and timelines.

resource "google_firestore_database" "store" {
  name                              = var.database
  location_id                       = local.database_location
  type                              = "FIRESTORE_NATIVE"
  delete_protection_state           = var.deletion_protection ? "DELETE_PROTECTION_ENABLED" : "DELETE_PROTECTION_DISABLED"
  deletion_policy                   = var.deletion_protection ? "ABANDON" : "DELETE"
  point_in_time_recovery_enablement = "POINT_IN_TIME_RECOVERY_ENABLED"

  depends_on = [google_project_service.api]
}

# Documents that Firestore deletes by itself some time after the moment in `expire`: history, and the tombstones of
# deleted clusters. The field itself is not indexed, since nobody asks for it.
resource "google_firestore_field" "expiring" {
  for_each = toset(["timeline", "operations", "quarantine", "clusters"])

  database   = google_firestore_database.store.name
  collection = each.key
  field      = "expire"

  ttl_config {}
  index_config {}
}

# Fields that are only ever read with their document, by collection. An index on them would make each write dearer, for
# `data` by far. What is asked for (nextLook, project and location, received, place, created) has Firestore's own index of
# single fields, and no query needs more than one of those in an order.
locals {
  unindexed = merge([
    for collection, fields in {
      clusters   = ["data", "trail"]
      pools      = ["data"]
      nodes      = ["data"]
      slurm      = ["data"]
      inbox      = ["data"]
      timeline   = ["text", "problem"]
      operations = ["data"]
      quarantine = ["data", "reason"]
    } : { for field in fields : "${collection}.${field}" => { collection = collection, field = field } }
  ]...)
}

resource "google_firestore_field" "unindexed" {
  for_each = local.unindexed

  database   = google_firestore_database.store.name
  collection = each.value.collection
  field      = each.value.field

  index_config {}
}
