output "api_url" {
  description = "The base URL of the API. Callers send an identity token of theirs with this URL as the audience."
  value       = google_cloud_run_v2_service.function["api"].uri
}

output "console_url" {
  description = "The console. `gcloud run services proxy convoke-console` opens it on this machine."
  value       = google_cloud_run_v2_service.function["console"].uri
}

output "node_service_account" {
  description = "The account for login and compute nodes."
  value       = google_service_account.identity["node"].email
}

output "controller_service_account" {
  description = "The account for the machines of Slurm controllers."
  value       = google_service_account.identity["controller"].email
}

output "functions" {
  description = "Each function's service, with its URL and its identity."
  value = { for name, service in google_cloud_run_v2_service.function : name => {
    service         = service.name
    url             = service.uri
    service_account = google_service_account.identity[name].email
  } }
}

output "topics" {
  description = "The topics' full names."
  value       = { for name, topic in google_pubsub_topic.topic : name => topic.id }
}

output "database" {
  description = "The Firestore database."
  value       = google_firestore_database.store.name
}
