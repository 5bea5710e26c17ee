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

# Large fields that are only ever read whole: an index on them would cost writes and refuse values over 1,500 bytes.
resource "google_firestore_field" "unindexed" {
  for_each = toset(["clusters", "pools", "nodes", "slurm", "inbox", "timeline", "operations", "quarantine"])

  database   = google_firestore_database.store.name
  collection = each.key
  field      = "data"

  index_config {}
}
