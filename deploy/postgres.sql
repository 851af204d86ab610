-- The role and the database of the service, for PostgreSQL 15 or later. Run it once, as a superuser:
--
--   password=$(openssl rand -hex 16)
--   psql --set password="$password" --file postgres.sql postgres
--   echo "DATABASE_URL=postgres://developer_api:$password@localhost/developer_api"
--
-- The role owns its database and nothing else: it is no superuser, and creates neither roles nor databases.
CREATE ROLE developer_api LOGIN PASSWORD :'password';
CREATE DATABASE developer_api OWNER developer_api TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C';
REVOKE ALL ON DATABASE developer_api FROM PUBLIC;
